import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { z } from 'zod';
import { signedInRoute } from '../../routing.ts';

/** The customer is the organization of the scope, which is part of every address. */
const reportsRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/reports',
  validateSearch: z.object({
    month: z
      .string()
      .regex(/^(19[7-9]\d|[2-9]\d{3})-(0[1-9]|1[0-2])$/)
      .optional()
      .catch(undefined),
  }),
  staticData: { title: 'Reports', permission: 'devices:read' },
  component: lazyRouteComponent(() => import('./reports-page.tsx'), 'ReportsPage'),
});

const schedulesRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/reports/schedules',
  validateSearch: z.object({ page: z.number().int().positive().optional().catch(undefined) }),
  staticData: { title: 'Reports by mail', permission: 'organizations:read' },
  component: lazyRouteComponent(() => import('./schedules-page.tsx'), 'SchedulesPage'),
});

export const reportPages = [reportsRoute, schedulesRoute] as const;
