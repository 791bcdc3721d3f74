export { GroupFollower } from './group-follower.ts';
export { groupRoutes } from './group.routes.ts';
export { groupRetention } from './retention.ts';
