import { byRules, cascade } from '../../platform/db/retention-rule.ts';
import { defineFeature } from '../feature.ts';
import { questionRetention } from './question.model.ts';
import { questionRoutes } from './question.routes.ts';
import { addAskingWork } from './question.work.ts';

/** Queries of event logs that devices are asked as they come back. */
export const feature = defineFeature({
  name: 'event-log-questions',
  routes: (parts: Parameters<typeof questionRoutes>[0]) => [questionRoutes(parts)],
  jobs: addAskingWork,
  tables: [...byRules(questionRetention), cascade('event_log_answers', 'event_log_questions')],
});
