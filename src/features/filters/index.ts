export { filterRoutes } from './filter.routes.ts';
export { conditionsOf, conditionsToFollow } from './stored-conditions.ts';
export { assertNoGroupCycle, conditionsWithin } from './group-filters.ts';
