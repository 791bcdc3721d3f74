import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { z } from 'zod';
import { signedInRoute } from '../../routing.ts';

const page = z.number().int().positive().optional().catch(undefined);
const id = z.uuid().optional().catch(undefined);
const getParentRoute = () => signedInRoute;

const policiesRoute = createRoute({
  getParentRoute,
  path: '/notifications',
  validateSearch: z.object({ page }),
  staticData: { title: 'Notification policies', permission: 'alerts:read' },
  component: lazyRouteComponent(() => import('./policies-page.tsx'), 'PoliciesPage'),
});

const channelsRoute = createRoute({
  getParentRoute,
  path: '/notifications/channels',
  validateSearch: z.object({ page }),
  staticData: { title: 'Notification channels', permission: 'alerts:read' },
  component: lazyRouteComponent(() => import('./channels-page.tsx'), 'ChannelsPage'),
});

const logRoute = createRoute({
  getParentRoute,
  path: '/notifications/log',
  validateSearch: z.object({
    status: z
      .array(z.enum(['pending', 'sent', 'failed', 'suppressed']))
      .optional()
      .catch(undefined),
    channel: id,
    from: z.string().optional().catch(undefined),
    page,
  }),
  staticData: { title: 'Notification log', permission: 'alerts:read' },
  component: lazyRouteComponent(() => import('./log-page.tsx'), 'LogPage'),
});

export const notificationPages = [policiesRoute, channelsRoute, logRoute] as const;
