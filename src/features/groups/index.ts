export { groupRoutes } from './group.routes.ts';
