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
  validateSearch: z.object({ dialog: z.literal('run').optional().catch(undefined) }),
  staticData: { title: 'Script', permission: 'scripts:read' },
  component: lazyRouteComponent(() => import('./script-page.tsx'), 'ScriptPage'),
});

export const scriptPages = [scriptsRoute, newScriptRoute, scriptRoute] as const;
