import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { z } from 'zod';
import { signedInRoute } from '../../routing.ts';

const AlertsSearch = z.object({
  status: z
    .array(z.enum(['active', 'acknowledged', 'resolved']))
    .optional()
    .catch(undefined),
  severity: z
    .array(z.enum(['critical', 'high', 'medium', 'low', 'info']))
    .optional()
    .catch(undefined),
  /** Only the alerts of one rule, to which the list of the rules leads. */
  rule: z.uuid().optional().catch(undefined),
  /** Only alerts of one kind, to which the overview leads. */
  kind: z.string().max(64).optional().catch(undefined),
  q: z.string().optional().catch(undefined),
  page: z.number().int().positive().optional().catch(undefined),
  /** The alert whose details are shown. Messages lead to it, whether the list has it or not. */
  alert: z.uuid().optional().catch(undefined),
});

const alertsRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/alerts',
  validateSearch: AlertsSearch,
  staticData: { title: 'Alerts', permission: 'alerts:read' },
  component: lazyRouteComponent(() => import('./alerts-page.tsx'), 'AlertsPage'),
});

export const alertPages = [alertsRoute] as const;
