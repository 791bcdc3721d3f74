export { filterRoutes } from './filter.routes.ts';
export { conditionsOf } from './stored-conditions.ts';
