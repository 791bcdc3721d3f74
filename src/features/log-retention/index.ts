export { logRetentionRoutes } from './log-retention.routes.ts';
export { OldLogs } from './old-logs.ts';
