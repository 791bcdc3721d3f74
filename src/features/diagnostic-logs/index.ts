export { diagnosticLogRoutes } from './diagnostic-log.routes.ts';
export { diagnosticLogRetention } from './retention.ts';
