import { bounded, byRules, cascade } from '../../platform/db/retention-rule.ts';
import { CREATED_BY_PEOPLE, defineFeature } from '../feature.ts';
import { groupRoutes } from './group.routes.ts';
import { groupRetention } from './group.model.ts';

export { DynamicGroupSync } from './dynamic-group-sync.ts';
export { groupsUseFilters } from './filter-dependencies.ts';
export { groupSearch, groupsOutsideOrganization, groupTimeline, organizationScope } from './group.queries.ts';
export { MembershipReason } from './group.schema.ts';

export const feature = defineFeature({
  name: 'groups',
  routes: (parts: Parameters<typeof groupRoutes>[0]) => [groupRoutes(parts)],
  tables: [
    bounded('device_groups', CREATED_BY_PEOPLE),
    cascade('device_group_members', 'device_groups'),
    ...byRules(groupRetention),
  ],
});
