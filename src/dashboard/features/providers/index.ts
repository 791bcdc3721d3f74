import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { z } from 'zod';
import { signedInRoute } from '../../routing.ts';

const providersRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/providers',
  validateSearch: z.object({ page: z.number().int().positive().optional().catch(undefined) }),
  staticData: { title: 'Providers', permission: { scopes: ['system'] } },
  component: lazyRouteComponent(() => import('./providers-page.tsx'), 'ProvidersPage'),
});

export const providerPages = [providersRoute] as const;
