import { type Caller, type Context, assertActsForWholePartner } from '../../platform/context.ts';
import { nameOrder } from '../../platform/db/statement.ts';
import { patchRecorded } from '../../platform/db/base-model.ts';
import type { Scope } from '../../platform/db/tenant-scope.ts';
import { AppError, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import {
  CATALOGUE,
  EVERYTHING,
  exceeds,
  PERMISSIONS,
  type NewRole,
  type RoleChange,
  type RoleQuery,
} from './role.schema.ts';
import { Role } from './role.model.ts';
import { isInUse } from './role.queries.ts';

/** The scopes whose roles a caller sees and gives: their own, and what lies below. */
const SCOPES_BELOW: Record<Scope, readonly Scope[]> = {
  system: ['system', 'partner', 'organization'],
  partner: ['partner', 'organization'],
  organization: ['organization'],
};

/** Row level security shows the roles of every deployment, of the caller's partner and of accessible organizations. */
const visible = (ctx: Context) =>
  Role.query(ctx.tx).whereIn('roles.scope', [...SCOPES_BELOW[ctx.caller.scope]]);

export function permissionCatalog() {
  const data = Object.entries(CATALOGUE).map(([resource, actions]) => ({ resource, actions: [...actions] }));
  return { data, permissions: [...PERMISSIONS] };
}

export async function listRoles(ctx: Context, query: RoleQuery) {
  const roles = visible(ctx)
    .orderByRaw(`is_system desc, ${nameOrder('name')}, id`)
    .page(query.page - 1, query.limit);
  if (query.scope !== undefined) void roles.where('scope', query.scope);
  return toPage(query, await roles);
}

export async function readRole(ctx: Context, id: string): Promise<Role> {
  const role = await visible(ctx).findById(id);
  if (role === undefined) throw notFound('Role');
  return role;
}

/** A role to be given to someone: it keeps its permissions until the transaction ends. */
export async function findRoleToAssign(ctx: Context, id: string): Promise<Role | undefined> {
  return visible(ctx).findById(id).forShare();
}

export async function createRole(ctx: Context, input: NewRole): Promise<Role> {
  const { caller } = ctx;
  const scope = input.scope ?? caller.scope;
  if (!SCOPES_BELOW[caller.scope].includes(scope)) {
    throw new AppError('forbidden', `You cannot create ${scope}-scope roles.`);
  }
  assertActsForWholePartner(caller, CHANGE_ROLES);
  assertHolds(caller, input.permissions);
  return Role.query(ctx.tx).insertAndFetch({
    scope,
    partnerId: caller.partnerId,
    orgId: caller.scope === 'organization' ? caller.orgId : null,
    name: input.name,
    description: input.description ?? null,
    permissions: input.permissions,
  });
}

export async function updateRole(ctx: Context, id: string, change: RoleChange): Promise<Role> {
  const role = await readRoleToChange(ctx, id);
  if (change.permissions !== undefined) {
    assertHolds(ctx.caller, change.permissions);
    // Someone may be the last who holds everything by this very role.
    const loses = role.permissions.includes(EVERYTHING) && !change.permissions.includes(EVERYTHING);
    if (loses && (await isInUse(ctx, id))) {
      throw new AppError(
        'conflict',
        `${EVERYTHING} cannot be removed from a role in use. Assign its users another role first.`,
      );
    }
  }
  const { name = role.name, description = role.description, permissions = role.permissions } = change;
  return patchRecorded(ctx, role, { name, description, permissions });
}

export async function deleteRole(ctx: Context, id: string): Promise<{ success: true; role: Role }> {
  const role = await readRoleToChange(ctx, id);
  if (await isInUse(ctx, id)) {
    throw new AppError('conflict', 'This role is in use. Assign its users another role first.');
  }
  await role.$query(ctx.tx).delete();
  return { success: true, role };
}

/** Locked against being given to anyone meanwhile. */
async function readRoleToChange(ctx: Context, id: string): Promise<Role> {
  const role = await readRole(ctx, id);
  if (!isOwn(ctx.caller, role)) {
    throw new AppError(
      'forbidden',
      role.isSystem ? 'System roles cannot be changed.' : 'You cannot change this role.',
    );
  }
  if (role.orgId === null) assertActsForWholePartner(ctx.caller, CHANGE_ROLES);
  const locked = await visible(ctx).findById(id).forUpdate();
  if (locked === undefined) throw notFound('Role');
  assertHolds(ctx.caller, locked.permissions);
  return locked;
}

function isOwn(caller: Caller, role: Role): boolean {
  if (role.isSystem) return false;
  if (caller.scope === 'system') return true;
  if (caller.scope === 'organization') return role.orgId === caller.orgId;
  return role.partnerId === caller.partnerId || role.orgId !== null;
}

/** A partner's role counts in all of its organizations. */
const CHANGE_ROLES = 'change roles of the whole partner';

/** Throws 403 if permissions go beyond what the caller holds. */
export function assertHolds(caller: Caller, permissions: readonly string[]): void {
  const beyond = exceeds(caller.permissions, permissions);
  if (beyond.length > 0) {
    throw new AppError(
      'forbidden',
      `You cannot grant permissions that you do not have: ${beyond.join(', ')}.`,
    );
  }
}
