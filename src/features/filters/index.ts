import { bounded } from '../../platform/db/retention/retention-rule.ts';
import { CREATED_BY_PEOPLE, defineFeature } from '../feature.ts';
import { filterRoutes } from './filter.routes.ts';

export { FILTER_CHANGED } from './filter.events.ts';
export { conditionsOf, conditionsToFollow } from './stored-conditions.ts';
export type { FilterReferrer } from './filter-usage.ts';
export {
  conditionsForGroup,
  conditionsNamingGroups,
  conditionsWithin,
  filterWithin,
} from './group-filters.ts';

export const feature = defineFeature({
  name: 'filters',
  routes: (parts: Parameters<typeof filterRoutes>[0]) => [filterRoutes(parts)],
  tables: [bounded('saved_filters', CREATED_BY_PEOPLE)],
});
