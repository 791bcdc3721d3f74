import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { z } from 'zod';
import { signedInRoute } from '../../routing.ts';

const softwareRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/software',
  validateSearch: z.object({
    q: z.string().max(255).optional().catch(undefined),
    /** The program whose devices are shown. */
    title: z.string().max(255).optional().catch(undefined),
    page: z.number().int().positive().optional().catch(undefined),
  }),
  staticData: { title: 'Software', permission: 'devices:read' },
  component: lazyRouteComponent(() => import('./software-page.tsx'), 'SoftwarePage'),
});

export const softwarePages = [softwareRoute] as const;
