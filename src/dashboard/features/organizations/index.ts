import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { z } from 'zod';
import { signedInRoute } from '../../routing.ts';

const organizationsRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/organizations',
  validateSearch: z.object({ page: z.number().int().positive().optional().catch(undefined) }),
  staticData: { title: 'Organizations', permission: 'organizations:read' },
  component: lazyRouteComponent(() => import('./organizations-page.tsx'), 'OrganizationsPage'),
});

const sitesRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/organizations/$organizationId',
  staticData: { title: 'Sites', permission: 'sites:read' },
  component: lazyRouteComponent(() => import('./organization-page.tsx'), 'OrganizationPage'),
});

export const organizationPages = [organizationsRoute, sitesRoute] as const;
