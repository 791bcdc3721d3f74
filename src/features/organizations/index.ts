export { Organization } from './organization.model.ts';
export { organizationRoutes } from './organization.routes.ts';
export {
  accessibleOrganizationIds,
  actingStatusSql,
  assertManageable,
  assertManageableStatus,
  assertOrganizationAccess,
  isManageable,
  readOrganization,
} from './organization.service.ts';
