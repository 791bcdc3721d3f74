import type { Context } from '../../../platform/context.ts';
import type { Scope } from '../../../platform/db/tenant-scope.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { AppError } from '../../../platform/errors.ts';
import { assertOrganizationAccess } from '../../organizations/index.ts';
import { assertHolds, EVERYTHING, findRoleToAssign, type Role } from '../../roles/index.ts';
import type { Person } from './member.queries.ts';

/** Where a person belongs: the system, one partner or one organization. */
export interface Place {
  scope: Scope;
  partnerId: string | null;
  orgId: string | null;
}

/** What a person may do there. */
export interface Grant {
  roleId: string;
  orgAccess: 'all' | 'selected' | 'none';
  orgIds: string[];
}

export interface WantedGrant {
  roleId: string;
  orgAccess?: Grant['orgAccess'] | undefined;
  orgIds?: string[] | undefined;
}

/** Checks that the caller can give this there. What is left out of the organizations stays as it was. */
export async function grantFor(ctx: Context, place: Place, wanted: WantedGrant, now: Grant): Promise<Grant> {
  const role = await roleFor(ctx, place, wanted.roleId);
  assertHolds(ctx.caller, role.permissions);
  if (place.scope !== 'partner') {
    if (wanted.orgAccess !== undefined || wanted.orgIds !== undefined) {
      throw fault('orgAccess', 'is for people of a partner only');
    }
    return { roleId: role.id, orgAccess: 'none', orgIds: [] };
  }
  const orgAccess = wanted.orgAccess ?? now.orgAccess;
  if (orgAccess !== 'selected' && wanted.orgIds !== undefined && wanted.orgIds.length > 0) {
    throw fault('orgIds', 'goes with orgAccess selected');
  }
  const orgIds = orgAccess === 'selected' ? [...new Set(wanted.orgIds ?? now.orgIds)] : [];
  // What is kept was checked with the person; among it may be organizations that have gone since.
  const added = orgIds.filter((id) => !now.orgIds.includes(id));
  await assertReaches(ctx, { orgAccess, orgIds: added });
  return { roleId: role.id, orgAccess, orgIds };
}

/** Throws 403 unless the caller reaches every organization that the other does. */
async function assertReaches(ctx: Context, { orgAccess, orgIds }: Pick<Grant, 'orgAccess' | 'orgIds'>) {
  if (ctx.caller.scope === 'system') return;
  if (orgAccess === 'all' && ctx.caller.orgAccess !== 'all') {
    throw new AppError('forbidden', 'This reaches more organizations than you may act in yourself.');
  }
  await assertOrganizationAccess(ctx, ...orgIds);
}

/** Throws 403 where someone holds more than the caller, be it permissions or organizations. */
export async function assertMayChange(ctx: Context, person: Person): Promise<void> {
  assertHolds(ctx.caller, person.permissions);
  if (ctx.caller.scope === 'partner' && person.scope === 'partner' && ctx.caller.orgAccess !== 'all') {
    const beyond =
      person.orgAccess === 'all' ||
      (person.orgAccess === 'selected' && person.orgIds.some((id) => !ctx.caller.orgIds.includes(id)));
    if (beyond) throw new AppError('forbidden', 'This person reaches more organizations than you do.');
  }
}

async function roleFor(ctx: Context, place: Place, roleId: string): Promise<Role> {
  const role = await findRoleToAssign(ctx, roleId);
  if (role === undefined || role.scope !== place.scope || !(await belongs(ctx, role, place))) {
    throw fault('roleId', `must be a role for people of ${NOUN[place.scope]}`);
  }
  return role;
}

const NOUN: Record<Scope, string> = {
  system: 'the system',
  partner: 'this partner',
  organization: 'this organization',
};

async function belongs(ctx: Context, role: Role, place: Place): Promise<boolean> {
  if (role.orgId !== null) return role.orgId === place.orgId;
  if (role.partnerId === null) return true;
  if (place.orgId === null) return role.partnerId === place.partnerId;
  const [partnerId] = await ctx.tx('organizations').where({ id: place.orgId }).pluck('partner_id');
  return role.partnerId === partnerId;
}

const fault = (field: string, message: string) =>
  new AppError('validation_failed', `${field} ${message}`, {
    details: [{ path: `body.${field}`, message }],
  });

export async function addMembership(tx: Tx, userId: string, place: Place, grant: Grant): Promise<void> {
  const member = { user_id: userId, role_id: grant.roleId };
  if (place.scope === 'system') await tx('system_users').insert(member);
  else if (place.scope === 'organization') {
    await tx('organization_users').insert({ ...member, org_id: place.orgId });
  } else {
    const { orgAccess, orgIds } = grant;
    const row = { ...member, partner_id: place.partnerId, org_access: orgAccess, org_ids: orgIds };
    await tx('partner_users').insert(row);
  }
}

/** Whether the account is a member of anything, be it the caller's to see or not: for transactions across tenants. */
export async function belongsSomewhere(tx: Tx, userId: string): Promise<boolean> {
  const { rows } = await tx.raw(
    `select exists (select from system_users where user_id = :userId)
      or exists (select from partner_users where user_id = :userId)
      or exists (select from organization_users where user_id = :userId) as belongs`,
    { userId },
  );
  return rows[0]?.belongs === true;
}

/**
 * Takes the account out of places where it can do nothing, not even leave: those that are deleted, and those of a
 * partner that nobody has approved yet or that is churned. For transactions across tenants.
 */
export async function leaveUnusablePlaces(tx: Tx, userId: string): Promise<void> {
  const unusable = `p.deleted_at is not null or p.status in ('pending', 'churned')`;
  await tx.raw(
    `delete from partner_users m using partners p
    where m.user_id = ? and p.id = m.partner_id and (${unusable})`,
    [userId],
  );
  await tx.raw(
    `delete from organization_users m using organizations o, partners p
    where m.user_id = ? and o.id = m.org_id and p.id = o.partner_id
      and (o.deleted_at is not null or ${unusable})`,
    [userId],
  );
}

/** Takes the account out of whatever it is a member of: for transactions across tenants. */
export async function removeMemberships(tx: Tx, userId: string): Promise<void> {
  for (const table of Object.values(TABLE)) await tx(table).where({ user_id: userId }).delete();
}

export async function changeMembership(ctx: Context, person: Person, grant: Grant): Promise<void> {
  const { roleId, orgAccess, orgIds } = grant;
  await membershipOf(ctx, person).update(
    person.scope === 'partner'
      ? { role_id: roleId, org_access: orgAccess, org_ids: orgIds }
      : { role_id: roleId },
  );
}

export async function removeMembership(ctx: Context, person: Person): Promise<void> {
  await membershipOf(ctx, person).delete();
}

const TABLE = { system: 'system_users', partner: 'partner_users', organization: 'organization_users' };

function membershipOf(ctx: Context, person: Person) {
  if (person.isInvitation) return ctx.tx('membership_invitations').where({ id: person.id });
  return ctx.tx(TABLE[person.scope]).where({ user_id: person.id });
}

/** One at a time changes who is an administrator of a place. What is read after this is what counts. */
export async function lockAdministrators(ctx: Context, { scope, partnerId, orgId }: Place): Promise<void> {
  const place = `administrators of ${scope} ${partnerId ?? orgId ?? ''}`;
  await ctx.tx.raw('select pg_advisory_xact_lock(hashtextextended(?, 0))', [place]);
}

export const isAdministrator = ({ status, permissions }: Pick<Person, 'status' | 'permissions'>): boolean =>
  status === 'active' && permissions.includes(EVERYTHING);

/** Throws 409, which undoes the change, where nobody is left who may do everything. */
export async function assertAdministratorRemains(ctx: Context, place: Place): Promise<void> {
  const members = ctx.tx(`${TABLE[place.scope]} as m`);
  if (place.scope === 'partner') void members.where('m.partner_id', place.partnerId);
  if (place.scope === 'organization') void members.where('m.org_id', place.orgId);
  const [other] = await members
    .join('users as u', 'u.id', 'm.user_id')
    .join('roles as r', 'r.id', 'm.role_id')
    .where('u.status', 'active')
    .whereRaw('r.permissions @> array[?]', [EVERYTHING])
    .limit(1)
    .pluck('u.id');
  if (other === undefined) {
    throw new AppError(
      'conflict',
      `This is the last administrator of ${NOUN[place.scope]}. Make someone else one first.`,
    );
  }
}
