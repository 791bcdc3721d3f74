import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { z } from 'zod';
import { signedInRoute } from '../../routing.ts';
import { LogSearch } from './log-search.ts';
import { QUESTION_OUTCOMES } from './question-outcomes.ts';

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

const page = z.number().int().positive().optional().catch(undefined);

const questionsRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/event-logs/questions',
  validateSearch: z.object({ page }),
  staticData: { title: 'Standing questions', permission: 'devices:read' },
  component: lazyRouteComponent(() => import('./questions-page.tsx'), 'QuestionsPage'),
});

const questionRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/event-logs/questions/$questionId',
  validateSearch: z.object({
    page,
    outcome: z.array(z.enum(QUESTION_OUTCOMES)).optional().catch(undefined),
  }),
  staticData: { title: 'Standing question', permission: 'devices:read' },
  component: lazyRouteComponent(() => import('./question-page.tsx'), 'QuestionPage'),
});

const answerRoute = createRoute({
  getParentRoute: () => signedInRoute,
  path: '/event-logs/questions/$questionId/$deviceId',
  validateSearch: LogSearch,
  staticData: { title: 'Answer of a device', permission: 'devices:read' },
  component: lazyRouteComponent(() => import('./answer-page.tsx'), 'AnswerPage'),
});

export const eventLogPages = [
  fleetLogsRoute,
  deviceLogsRoute,
  questionsRoute,
  questionRoute,
  answerRoute,
] as const;
