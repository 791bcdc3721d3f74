import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { z } from 'zod';
import { signedInRoute } from '../../routing.ts';

const windowsRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/maintenance',
  validateSearch: z.object({ page: z.number().int().positive().optional().catch(undefined) }),
  staticData: { title: 'Maintenance windows', permission: 'devices:read' },
  component: lazyRouteComponent(() => import('./windows-page.tsx'), 'WindowsPage'),
});

const calendarRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/maintenance/calendar',
  validateSearch: z.object({
    month: z
      .string()
      .regex(/^(19[7-9]\d|[2-9]\d{3})-(0[1-9]|1[0-2])$/)
      .optional()
      .catch(undefined),
  }),
  staticData: { title: 'Calendar of maintenance', permission: 'devices:read' },
  component: lazyRouteComponent(() => import('./calendar-page.tsx'), 'CalendarPage'),
});

export const maintenancePages = [windowsRoute, calendarRoute] as const;
