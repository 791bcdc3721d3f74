export { LogReadRecorder } from './log-reads.ts';
export { liveLogRoutes } from './live-logs.routes.ts';
export { liveLogs } from './live-logs.service.ts';
export { storedLogRoutes } from './stored-logs.routes.ts';
export { eventLogRetention } from './retention.ts';
