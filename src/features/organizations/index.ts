export { organizationRoutes } from './organization.routes.ts';
export {
  accessibleOrganizationIds,
  assertManageable,
  assertOrganizationAccess,
  isManageable,
  readOrganization,
} from './organization.service.ts';
