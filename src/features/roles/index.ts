import { bounded } from '../../platform/db/retention/retention-rule.ts';
import { CREATED_BY_PEOPLE, defineFeature } from '../feature.ts';
import { roleRoutes } from './role.routes.ts';

export { EVERYTHING, exceeds } from './permissions.ts';
export { Role } from './role.model.ts';
export { isRoleFor, type RoleTenant } from './role-tenant.ts';
export { assertHolds, findRoleToAssign } from './role.service.ts';
export { stillHolds } from './standing.queries.ts';
export { Permission } from './role.schema.ts';

export const feature = defineFeature({
  name: 'roles',
  routes: () => [roleRoutes],
  tables: [bounded('roles', CREATED_BY_PEOPLE)],
});
