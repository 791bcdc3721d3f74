export { organizationRoutes } from './organization.routes.ts';
export {
  accessibleOrganizationIds,
  assertManageable,
  assertOrganizationAccess,
  isManageable,
} from './organization.service.ts';
