export { filterRoutes } from './filter.routes.ts';
export { filterUsage } from './filter-usage.ts';
export { checkedConditions, conditionsOf } from './stored-conditions.ts';
