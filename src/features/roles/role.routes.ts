import { z } from 'zod';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { NewRole, PermissionCatalog, Role, RoleChange, RoleQuery } from './role.schema.ts';
import {
  createRole,
  deleteRole,
  listRoles,
  permissionCatalog,
  readRole,
  updateRole,
} from './role.service.ts';

const READ = { scopes: ['organization', 'partner', 'system'], permission: 'users:read' } as const;
const WRITE = { scopes: ['organization', 'partner', 'system'], permission: 'users:write' } as const;
/** A wider role gives rights to everyone who holds it, and what gives people rights is for people. */
const PERSON_WRITE = { ...WRITE, person: true } as const;

interface NotedRole {
  id: string;
  name: string;
  permissions: string[];
  orgId: string | null;
  partnerId: string | null;
}
const note = ({ id, name, permissions, orgId, partnerId }: NotedRole) => ({
  orgId,
  partnerId,
  resourceId: id,
  resourceName: name,
  details: { permissions },
});

export const roleRoutes: RouteGroup = {
  name: 'Roles',
  description: 'What people may do.',
  routes: [
    route({
      method: 'get',
      path: '/permissions/catalog',
      summary: 'Everything that a role can allow',
      access: 'signed-in',
      response: PermissionCatalog,
      handler: permissionCatalog,
    }),
    route({
      method: 'get',
      path: '/roles',
      summary: 'List roles, those of the system first',
      access: READ,
      query: RoleQuery,
      response: pageOf(Role),
      handler: ({ ctx, query }) => listRoles(ctx, query),
    }),
    route({
      method: 'post',
      path: '/roles',
      summary: 'Create a role of the caller’s partner or organization',
      description: 'It can allow what the caller may do, and no more.',
      access: WRITE,
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
      access: READ,
      params: IdParams,
      response: Role,
      handler: ({ ctx, params }) => readRole(ctx, params.id),
    }),
    route({
      method: 'patch',
      path: '/roles/:id',
      summary: 'Change a role',
      description: 'Counts for everyone who holds it, from their next request on.',
      access: PERSON_WRITE,
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
      summary: 'Delete a role that nobody holds',
      access: WRITE,
      params: IdParams,
      response: z.object({ success: z.literal(true) }),
      errors: ['conflict'],
      handler: ({ ctx, params }) => deleteRole(ctx, params.id),
      audit: { action: 'role.delete', resource: 'role', note: ({ role }) => note(role) },
    }),
  ],
};
