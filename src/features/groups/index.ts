export { DynamicGroupSync } from './dynamic-group-sync.ts';
export { groupRoutes } from './group.routes.ts';
export { groupRetention } from './retention.ts';
