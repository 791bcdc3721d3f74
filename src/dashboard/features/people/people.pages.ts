import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { z } from 'zod';
import { signedInRoute } from '../../routing.ts';

const peopleRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/people',
  validateSearch: z.object({
    q: z.string().optional().catch(undefined),
    status: z.enum(['active', 'invited', 'disabled']).optional().catch(undefined),
    page: z.number().int().positive().optional().catch(undefined),
    dialog: z.literal('new').optional().catch(undefined),
  }),
  staticData: { title: 'People', permission: 'users:read' },
  component: lazyRouteComponent(() => import('./people-page.tsx'), 'PeoplePage'),
});

const rolesRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/people/roles',
  staticData: { title: 'Roles', permission: 'users:read' },
  component: lazyRouteComponent(() => import('./roles-page.tsx'), 'RolesPage'),
});

export const peoplePages = [peopleRoute, rolesRoute] as const;
