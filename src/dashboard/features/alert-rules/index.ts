import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { z } from 'zod';
import { signedInRoute } from '../../routing.ts';

const rulesRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/alerts/rules',
  validateSearch: z.object({
    q: z.string().optional().catch(undefined),
    kind: z
      .enum(['metric', 'offline', 'event', 'software', 'service', 'reported'])
      .optional()
      .catch(undefined),
    page: z.number().int().positive().optional().catch(undefined),
    dialog: z.literal('new').optional().catch(undefined),
  }),
  staticData: { title: 'Alert rules', permission: 'alerts:read' },
  component: lazyRouteComponent(() => import('./rules-page.tsx'), 'RulesPage'),
});

export const alertRulePages = [rulesRoute] as const;
