import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { z } from 'zod';
import { signedInRoute } from '../../routing.ts';
import { LogSearch } from './log-search.ts';

const id = z.uuid().optional().catch(undefined);
/** The most devices of a query, and entries of each; no list of questions has as many pages. */
const count = z.number().int().min(1).max(500).optional().catch(undefined);

/**
 * The same query to many devices: those of a saved filter, or chosen ones. Or a standing question, and the device whose
 * answer is shown.
 */
const FleetSearch = LogSearch.extend({
  filter: id,
  devices: z.array(z.uuid()).min(1).max(500).optional().catch(undefined),
  limit: count,
  page: count,
  outcome: z.array(z.string()).optional().catch(undefined),
  question: id,
  device: id,
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

const questionsRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/event-logs/questions',
  validateSearch: FleetSearch,
  staticData: { title: 'Questions', permission: 'devices:read' },
  component: lazyRouteComponent(() => import('./questions-page.tsx'), 'QuestionsPage'),
});

export const eventLogPages = [fleetLogsRoute, deviceLogsRoute, questionsRoute] as const;
