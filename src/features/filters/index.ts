export { filterRoutes } from './filter.routes.ts';
export { conditionsOf, conditionsToFollow } from './stored-conditions.ts';
export { assertGroupsHaveOrder, conditionsWithin } from './group-filters.ts';
