import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { z } from 'zod';
import { signedInRoute } from '../../routing.ts';

const page = z.number().int().positive().optional().catch(undefined);
const id = z.uuid().optional().catch(undefined);
const text = z.string().optional().catch(undefined);
const kind = z.enum(['mail', 'calendar', 'contacts', 'onedrive']).optional().catch(undefined);
const getParentRoute = () => signedInRoute;
const staticData = { title: 'Cloud backup', permission: 'backup:read' };

const configsRoute = createRoute({
  getParentRoute,
  path: '/cloud-backup',
  validateSearch: z.object({ page }),
  staticData,
  component: lazyRouteComponent(() => import('./configs-page.tsx'), 'CloudConfigsPage'),
});

const itemsRoute = createRoute({
  getParentRoute,
  path: '/cloud-backup/items',
  validateSearch: z.object({
    config: id,
    user: text,
    kind,
    q: text,
    state: z.enum(['present', 'deleted']).optional().catch(undefined),
    /** The last item of the page before. */
    after: id,
    item: id,
  }),
  staticData: { ...staticData, title: 'Cloud items' },
  component: lazyRouteComponent(() => import('./items-page.tsx'), 'CloudItemsPage'),
});

const jobsRoute = createRoute({
  getParentRoute,
  path: '/cloud-backup/jobs',
  validateSearch: z.object({
    config: id,
    type: z.enum(['backup', 'restore']).optional().catch(undefined),
    status: z
      .enum(['pending', 'running', 'completed', 'partial', 'failed', 'cancelled'])
      .optional()
      .catch(undefined),
    job: id,
    page,
  }),
  staticData: { ...staticData, title: 'Cloud backup jobs' },
  component: lazyRouteComponent(() => import('./jobs-page.tsx'), 'CloudJobsPage'),
});

const connectionsRoute = createRoute({
  getParentRoute,
  path: '/cloud-backup/connections',
  validateSearch: z.object({
    page,
    /** With one of these the browser comes back from a consent at Microsoft. */
    connected: id,
    c2c_error: text,
  }),
  staticData: { ...staticData, title: 'Cloud connections' },
  component: lazyRouteComponent(() => import('./connections-page.tsx'), 'CloudConnectionsPage'),
});

export const cloudBackupPages = [configsRoute, itemsRoute, jobsRoute, connectionsRoute] as const;
