export { organizationRoutes } from './organization.routes.ts';
export {
  accessibleOrganizationIds,
  actingStatusSql,
  assertManageable,
  assertOrganizationAccess,
  isManageable,
  readOrganization,
} from './organization.service.ts';
