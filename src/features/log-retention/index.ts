export { chosenDays, deviceLogRule } from './kept-logs.ts';
export { logRetentionRoutes } from './log-retention.routes.ts';
export {
  DEFAULT_ALERT_DAYS,
  DEFAULT_COMMAND_DAYS,
  DEFAULT_DIAGNOSTIC_DAYS,
  DEFAULT_EVENT_DAYS,
} from './log-retention.schema.ts';
