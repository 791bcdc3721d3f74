import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { z } from 'zod';
import { signedInRoute } from '../../routing.ts';

const page = z.number().int().positive().optional().catch(undefined);

const agentsRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/agents',
  validateSearch: z.object({
    tab: z.enum(['releases', 'rollouts', 'policy']).optional().catch(undefined),
    component: z.enum(['agent', 'watchdog', 'helper', 'backup']).optional().catch(undefined),
    rollout: z.uuid().optional().catch(undefined),
    page,
  }),
  staticData: { title: 'Agents' },
  component: lazyRouteComponent(() => import('./agents-page.tsx'), 'AgentsPage'),
});

export const agentPages = [agentsRoute] as const;
