export { liveLogRoutes } from './live-logs.routes.ts';
export { liveLogs } from './live-logs.service.ts';
