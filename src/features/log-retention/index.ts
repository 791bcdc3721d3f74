import { bounded } from '../../platform/db/retention-rule.ts';
import { defineFeature, ONE_PER_ORGANIZATION } from '../feature.ts';
import { logRetentionRoutes } from './log-retention.routes.ts';

export {
  type ArrivedLogs,
  chosenDays,
  type DaysColumn,
  hasChosen,
  holdRemoval,
  LOG_ROW,
  noteRemoval,
  organizationsRemovingOldest,
  removeArrived,
  removesOldest,
} from './log-retention.queries.ts';
export { logRetentionOf } from './log-retention.service.ts';
export {
  DEFAULT_ALERT_DAYS,
  DEFAULT_COMMAND_DAYS,
  DEFAULT_DIAGNOSTIC_DAYS,
  DEFAULT_EVENT_DAYS,
} from './log-retention.schema.ts';

export const feature = defineFeature({
  name: 'log-retention',
  routes: () => [logRetentionRoutes],
  tables: [bounded('log_retention', ONE_PER_ORGANIZATION)],
});
