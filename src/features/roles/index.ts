import { bounded } from '../../platform/db/retention-rule.ts';
import { CREATED_BY_PEOPLE, defineFeature } from '../feature.ts';
import { roleRoutes } from './role.routes.ts';

export { EVERYTHING, exceeds, Permission } from './role.schema.ts';
export { Role, isRoleFor, type RoleTenant } from './role.model.ts';
export { assertHolds, findRoleToAssign } from './role.service.ts';
export { stillHolds } from './role.queries.ts';

export const feature = defineFeature({
  name: 'roles',
  routes: () => [roleRoutes],
  tables: [bounded('roles', CREATED_BY_PEOPLE)],
});
