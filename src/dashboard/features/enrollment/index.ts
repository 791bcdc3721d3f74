import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { z } from 'zod';
import { signedInRoute } from '../../routing.ts';

const enrollmentRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/enrollment',
  validateSearch: z.object({
    page: z.number().int().positive().optional().catch(undefined),
    dialog: z.literal('new').optional().catch(undefined),
  }),
  staticData: { title: 'Enrollment', permission: 'agents:read' },
  component: lazyRouteComponent(() => import('./enrollment-page.tsx'), 'EnrollmentPage'),
});

export const enrollmentPages = [enrollmentRoute] as const;
