import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { z } from 'zod';
import { signedInRoute } from '../../routing.ts';

const scriptsRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/scripts',
  validateSearch: z.object({
    q: z.string().optional().catch(undefined),
    language: z.enum(['bash', 'powershell', 'python']).optional().catch(undefined),
    page: z.number().int().positive().optional().catch(undefined),
  }),
  staticData: { title: 'Scripts', permission: 'scripts:read' },
  component: lazyRouteComponent(() => import('./scripts-page.tsx'), 'ScriptsPage'),
});

const newScriptRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/scripts/new',
  staticData: { title: 'New script', permission: 'scripts:read' },
  component: lazyRouteComponent(() => import('./script-page.tsx'), 'NewScriptPage'),
});

const scriptRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/scripts/$scriptId',
  validateSearch: z.object({
    dialog: z.literal('run').optional().catch(undefined),
    /** The group that the form for running it begins with. */
    group: z.uuid().optional().catch(undefined),
  }),
  staticData: { title: 'Script', permission: 'scripts:read' },
  component: lazyRouteComponent(() => import('./script-page.tsx'), 'ScriptPage'),
});

const page = z.number().int().positive().optional().catch(undefined);

const runsRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/scripts/runs',
  validateSearch: z.object({
    state: z
      .enum(['starting', 'running', 'cancelling', 'completed', 'cancelled', 'failed'])
      .optional()
      .catch(undefined),
    by: z.enum(['me']).optional().catch(undefined),
    script: z.uuid().optional().catch(undefined),
    schedule: z.uuid().optional().catch(undefined),
    page,
  }),
  staticData: { title: 'Script runs', permission: 'scripts:read' },
  component: lazyRouteComponent(() => import('./runs-page.tsx'), 'RunsPage'),
});

const runRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/scripts/runs/$runId',
  validateSearch: z.object({
    view: z.enum(['outputs']).optional().catch(undefined),
    outcome: z
      .enum(['waiting', 'running', 'completed', 'failed', 'timed_out', 'cancelled', 'expired', 'refused'])
      .optional()
      .catch(undefined),
    /** The group of equal output whose devices are listed. */
    alike: z
      .string()
      .regex(/^[0-9a-f]{64}$/)
      .optional()
      .catch(undefined),
    page,
  }),
  staticData: { title: 'Script run', permission: 'scripts:read' },
  component: lazyRouteComponent(() => import('./run-page.tsx'), 'RunPage'),
});

const schedulesRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/scripts/schedules',
  validateSearch: z.object({
    dialog: z.literal('new').optional().catch(undefined),
    script: z.uuid().optional().catch(undefined),
    page,
  }),
  staticData: { title: 'Script schedules', permission: 'scripts:read' },
  component: lazyRouteComponent(() => import('./schedules-page.tsx'), 'SchedulesPage'),
});

export const scriptPages = [
  scriptsRoute,
  newScriptRoute,
  runsRoute,
  runRoute,
  schedulesRoute,
  scriptRoute,
] as const;
