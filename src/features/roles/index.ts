export { EVERYTHING, exceeds } from './permissions.ts';
export type { Role } from './role.model.ts';
export { roleRoutes } from './role.routes.ts';
export { assertHolds, findRoleToAssign } from './role.service.ts';
export { Permission } from './role.schema.ts';
