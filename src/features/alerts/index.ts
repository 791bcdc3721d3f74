export { AlertRounds, type RoundTiming } from './alert-rounds.ts';
export { alertRoutes } from './alert.routes.ts';
export { raiseAlert, resolveAlert } from './raise.ts';
export { alertRetention } from './retention.ts';
