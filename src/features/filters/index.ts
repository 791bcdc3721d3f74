import { bounded } from '../../platform/db/retention-rule.ts';
import { CREATED_BY_PEOPLE, defineFeature } from '../feature.ts';
import { filterRoutes } from './filter.routes.ts';

export { FILTER_CHANGED } from './filter.model.ts';
export {
  conditionsOf,
  conditionsToFollow,
  conditionsForGroup,
  conditionsNamingGroups,
  conditionsWithin,
  filterWithin,
  organizationOfFilter,
} from './stored-conditions.ts';
export { filterSearch, type FilterReferrer } from './filter.queries.ts';

export const feature = defineFeature({
  name: 'filters',
  routes: (parts: Parameters<typeof filterRoutes>[0]) => [filterRoutes(parts)],
  tables: [bounded('saved_filters', CREATED_BY_PEOPLE)],
});
