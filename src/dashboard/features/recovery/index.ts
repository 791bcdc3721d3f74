import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { z } from 'zod';
import { signedInRoute } from '../../routing.ts';

const page = z.number().int().positive().optional().catch(undefined);
const getParentRoute = () => signedInRoute;
const staticData = { title: 'Recovery', permission: 'recovery:read' };

const plansRoute = createRoute({
  getParentRoute,
  path: '/recovery',
  validateSearch: z.object({
    status: z.enum(['draft', 'active', 'archived']).optional().catch(undefined),
    page,
  }),
  staticData,
  component: lazyRouteComponent(() => import('./plans-page.tsx'), 'PlansPage'),
});

const planRoute = createRoute({
  getParentRoute,
  path: '/recovery/plans/$planId',
  staticData: { ...staticData, title: 'Recovery plan' },
  component: lazyRouteComponent(() => import('./plan-page.tsx'), 'PlanPage'),
});

const executionsRoute = createRoute({
  getParentRoute,
  path: '/recovery/executions',
  validateSearch: z.object({
    plan: z.uuid().optional().catch(undefined),
    type: z.enum(['rehearsal', 'failover', 'failback']).optional().catch(undefined),
    status: z.enum(['pending', 'running', 'completed', 'failed', 'aborted']).optional().catch(undefined),
    page,
  }),
  staticData: { ...staticData, title: 'Recovery executions' },
  component: lazyRouteComponent(() => import('./executions-page.tsx'), 'ExecutionsPage'),
});

const executionRoute = createRoute({
  getParentRoute,
  path: '/recovery/executions/$executionId',
  staticData: { ...staticData, title: 'Recovery execution' },
  component: lazyRouteComponent(() => import('./execution-page.tsx'), 'ExecutionPage'),
});

export const recoveryPages = [plansRoute, planRoute, executionsRoute, executionRoute] as const;
