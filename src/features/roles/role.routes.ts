import { z } from 'zod';
import { everyScope, peopleOfEveryScope } from '../../platform/http/authentication.ts';
import { auditSubject } from '../../platform/http/audit.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import type { Role as StoredRole } from './role.model.ts';
import { NewRole, PermissionCatalog, Role, RoleChange, RoleQuery } from './role.schema.ts';
import {
  createRole,
  deleteRole,
  listRoles,
  permissionCatalog,
  readRole,
  updateRole,
} from './role.service.ts';

const note = (role: StoredRole) => ({ ...auditSubject(role), details: { permissions: role.permissions } });

export const roleRoutes: RouteGroup = {
  name: 'Roles',
  description: 'Roles and their permissions.',
  routes: [
    route({
      method: 'get',
      path: '/permissions/catalog',
      summary: 'List all permissions',
      access: 'signed-in',
      response: PermissionCatalog,
      handler: permissionCatalog,
    }),
    route({
      method: 'get',
      path: '/roles',
      summary: 'List roles, system roles first',
      access: everyScope('users:read'),
      query: RoleQuery,
      response: pageOf(Role),
      handler: ({ ctx, query }) => listRoles(ctx, query),
    }),
    route({
      method: 'post',
      path: '/roles',
      summary: 'Create a role of the caller’s partner or organization',
      description: 'A role can only contain permissions that the caller has.',
      access: everyScope('users:write'),
      body: NewRole,
      response: Role,
      status: 201,
      handler: ({ ctx, body }) => createRole(ctx, body),
      audit: { action: 'role.create', resource: 'role', note },
    }),
    route({
      method: 'get',
      path: '/roles/:id',
      summary: 'Read a role',
      access: everyScope('users:read'),
      params: IdParams,
      response: Role,
      handler: ({ ctx, params }) => readRole(ctx, params.id),
    }),
    route({
      method: 'patch',
      path: '/roles/:id',
      summary: 'Change a role',
      description: 'Applies to everyone with the role from their next request.',
      access: peopleOfEveryScope('users:write'),
      params: IdParams,
      body: RoleChange,
      response: Role,
      errors: ['conflict'],
      handler: ({ ctx, params, body }) => updateRole(ctx, params.id, body),
      audit: { action: 'role.update', resource: 'role', note },
    }),
    route({
      method: 'delete',
      path: '/roles/:id',
      summary: 'Delete an unused role',
      access: everyScope('users:write'),
      params: IdParams,
      response: z.object({ success: z.literal(true) }),
      errors: ['conflict'],
      handler: ({ ctx, params }) => deleteRole(ctx, params.id),
      audit: { action: 'role.delete', resource: 'role', note: ({ role }) => note(role) },
    }),
  ],
};
