import { bounded, byRules, cascade } from '../../platform/db/retention/retention-rule.ts';
import { CREATED_BY_PEOPLE, defineFeature } from '../feature.ts';
import { groupRoutes } from './group.routes.ts';
import { groupRetention } from './retention.ts';

export { DynamicGroupSync } from './dynamic-group-sync.ts';
export { groupsUseFilters } from './group-cycles.ts';
export { groupsOutsideOrganization } from './membership.ts';
export { organizationScope } from './organization-scope.ts';

export const feature = defineFeature({
  name: 'groups',
  routes: (parts: Parameters<typeof groupRoutes>[0]) => [groupRoutes(parts)],
  tables: [
    bounded('device_groups', CREATED_BY_PEOPLE),
    cascade('device_group_members', 'device_groups'),
    ...byRules(groupRetention),
  ],
});
