export { organizationRoutes } from './organization.routes.ts';
export {
  accessibleOrganizationIds,
  assertManageable,
  assertOrganizationAccess,
} from './organization.service.ts';
