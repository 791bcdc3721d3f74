import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { z } from 'zod';
import { signedInRoute } from '../../routing.ts';

const filtersRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/filters',
  validateSearch: z.object({
    q: z.string().optional().catch(undefined),
    page: z.number().int().positive().optional().catch(undefined),
  }),
  staticData: { title: 'Filters', permission: 'filters:read' },
  component: lazyRouteComponent(() => import('./filters-page.tsx'), 'FiltersPage'),
});

const tab = z.enum(['builder', 'json']).optional().catch(undefined);

const newFilterRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/filters/new',
  validateSearch: z.object({ tab, example: z.string().optional().catch(undefined) }),
  staticData: { title: 'New filter', permission: 'filters:read' },
  component: lazyRouteComponent(() => import('./filter-page.tsx'), 'NewFilterPage'),
});

const filterRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/filters/$filterId',
  validateSearch: z.object({ tab }),
  staticData: { title: 'Filter', permission: 'filters:read' },
  component: lazyRouteComponent(() => import('./filter-page.tsx'), 'FilterPage'),
});

export const filterPages = [filtersRoute, newFilterRoute, filterRoute] as const;
