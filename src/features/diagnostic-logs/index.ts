export { diagnosticLogRoutes } from './diagnostic-log.routes.ts';
