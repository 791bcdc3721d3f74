import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { z } from 'zod';
import { signedInRoute } from '../../routing.ts';

const profileRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/profile',
  // A link of an identity leads back here, with its result (SPEC 7).
  validateSearch: z.object({
    sso: z.literal('linked').optional().catch(undefined),
    error: z.string().optional().catch(undefined),
    reason: z.string().optional().catch(undefined),
  }),
  staticData: { title: 'Your profile' },
  component: lazyRouteComponent(() => import('./profile-page.tsx'), 'ProfilePage'),
});

const apiKeysRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/api-keys',
  staticData: { title: 'API keys' },
  component: lazyRouteComponent(() => import('./api-keys-page.tsx'), 'ApiKeysPage'),
});

export const profilePages = [profileRoute, apiKeysRoute] as const;
