export { Organization } from './organization.model.ts';
export { organizationRoutes } from './organization.routes.ts';
export {
  accessibleOrganizationIds,
  actingStatusSql,
  assertManageable,
  assertManageableStatus,
  assertOrganizationAccess,
  isManageable,
  isManageableSql,
  readOrganization,
} from './organization.service.ts';
