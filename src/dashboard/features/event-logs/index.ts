import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { z } from 'zod';
import { signedInRoute } from '../../routing.ts';
import { LogSearch } from './log-search.ts';

/** The same query to many devices: those of a saved filter, or chosen ones. */
const FleetSearch = LogSearch.extend({
  filter: z.uuid().optional().catch(undefined),
  devices: z.array(z.uuid()).min(1).max(500).optional().catch(undefined),
  limit: z.number().int().min(1).max(500).optional().catch(undefined),
});

const fleetLogsRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/event-logs',
  validateSearch: FleetSearch,
  staticData: { title: 'Event logs', permission: 'devices:read' },
  component: lazyRouteComponent(() => import('./event-logs-page.tsx'), 'EventLogsPage'),
});

const deviceLogsRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/devices/$deviceId/logs',
  validateSearch: LogSearch,
  staticData: { title: 'Event log', permission: 'devices:read' },
  component: lazyRouteComponent(() => import('./device-logs-page.tsx'), 'DeviceLogsPage'),
});

export const eventLogPages = [fleetLogsRoute, deviceLogsRoute] as const;
