import { bounded } from '../../platform/db/retention-rule.ts';
import { CREATED_BY_PEOPLE, defineFeature } from '../feature.ts';
import { organizationRoutes } from './organization.routes.ts';

export { Organization } from './organization.model.ts';
export { lockOrganization, organizationSearch } from './organization.queries.ts';
export {
  accessibleOrganizationIds,
  actingStatusSql,
  assertManageable,
  assertManageableStatus,
  assertOrganizationAccess,
  createOrganization,
  isManageable,
  isManageableSql,
  readOrganization,
} from './organization.service.ts';

export const feature = defineFeature({
  name: 'organizations',
  routes: (parts: Parameters<typeof organizationRoutes>[0]) => [organizationRoutes(parts)],
  tables: [bounded('organizations', CREATED_BY_PEOPLE)],
});
