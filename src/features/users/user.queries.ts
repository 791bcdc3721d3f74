import type { Caller, Context } from '../../platform/context.ts';
import type { Query } from '../../platform/db/pool.ts';
import { inTenant, hasAddressIn } from '../../platform/db/statement.ts';
import type { Scope } from '../../platform/db/tenant-scope.ts';
import { notFound } from '../../platform/errors.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { haystackOf, searchOf } from '../search/index.ts';
import { OrganizationMembership, PartnerMembership, SystemMembership, type User } from './user.model.ts';
import { addressForms } from '../../email-address.ts';

/** A member of a tenant: a user with their one membership and its role, or an invitation to one. */
export interface Member {
  id: string;
  email: string;
  name: string;
  status: 'active' | 'invited' | 'disabled';
  emailVerified: boolean;
  mfaEnabled: boolean;
  /** Whether it is an invitation, whose id this is, and no membership yet. */
  isInvitation: boolean;
  scope: Scope;
  partnerId: string | null;
  orgId: string | null;
  roleId: string;
  roleName: string;
  permissions: string[];
  orgAccess: 'all' | 'selected' | 'none' | null;
  orgIds: string[];
  lastLoginAt: Date | null;
  createdAt: Date;
  updatedAt: Date;
}

const ACCOUNT = `u.id, u.email, u.name, u.status, u.email_verified_at is not null as email_verified, u.mfa_enabled,
  false as is_invitation, u.last_login_at, u.created_at, u.updated_at`;
const PARTNER_SQL = `select ${ACCOUNT}, 'partner' as scope, partner_id, null::uuid as org_id, role_id, org_access, org_ids
  from partner_users m join users u on u.id = m.user_id`;
const ORGANIZATION_SQL = `select ${ACCOUNT}, 'organization', null::uuid, org_id, role_id, null, '{}'::uuid[]
  from organization_users m join users u on u.id = m.user_id`;
const SYSTEM_SQL = `select ${ACCOUNT}, 'system', null::uuid, null::uuid, role_id, null, '{}'::uuid[]
  from system_users m join users u on u.id = m.user_id`;
const INVITED_SQL = `select id, email, name, case when suspended then 'disabled' else 'invited' end, false, false, true,
  null::timestamptz, created_at, updated_at,
  case when partner_id is not null then 'partner' when org_id is not null then 'organization' else 'system' end,
  partner_id, org_id, role_id, case when partner_id is not null then org_access end, org_ids
  from membership_invitations`;

/** The members that a caller can see: those of a partner and of its accessible organizations, or of an organization. */
function membersSql(caller: Caller): string {
  const ofOrganizations = inTenant(caller, 'org_id');
  const organizations = `${ORGANIZATION_SQL} where ${ofOrganizations}`;
  if (caller.scope === 'system') {
    return `${PARTNER_SQL} union all ${organizations} union all ${SYSTEM_SQL} union all ${INVITED_SQL}`;
  }
  const ofPartner = 'partner_id = (select app_partner_id())';
  return `${PARTNER_SQL} where ${ofPartner} union all ${organizations}
    union all ${INVITED_SQL} where ${ofPartner} or ${ofOrganizations}`;
}

export function visibleMembers(ctx: Pick<Context, 'tx' | 'caller'>): Query {
  return ctx.tx.from(ctx.tx.raw(`(${membersSql(ctx.caller)}) as p`)).join('roles as r', 'r.id', 'p.role_id');
}

/** By name and address, those who signed in last first. */
export const userSearch = searchOf({ type: 'users', permission: 'users:read' }, (caller) => ({
  table: `(${membersSql(caller)})`,
  where: 'true',
  haystack: haystackOf('s.name', 's.email'),
  title: 's.name',
  description: 's.email',
  order: `to_char(1e10 - coalesce(extract(epoch from s.last_login_at), 0), '00000000000') || lower(s.name)`,
}));

export function selectMembers(query: Query): PromiseLike<Member[]> {
  return query.select({
    id: 'p.id',
    email: 'p.email',
    name: 'p.name',
    status: 'p.status',
    emailVerified: 'p.email_verified',
    mfaEnabled: 'p.mfa_enabled',
    isInvitation: 'p.is_invitation',
    scope: 'p.scope',
    partnerId: 'p.partner_id',
    orgId: 'p.org_id',
    roleId: 'p.role_id',
    roleName: 'r.name',
    permissions: 'r.permissions',
    orgAccess: 'p.org_access',
    orgIds: 'p.org_ids',
    lastLoginAt: 'p.last_login_at',
    createdAt: 'p.created_at',
    updatedAt: 'p.updated_at',
  });
}

export async function readMember(ctx: Context, id: string): Promise<Member> {
  const [member] = await selectMembers(visibleMembers(ctx).where('p.id', id));
  if (member === undefined) throw notFound('User');
  return member;
}

/** Memberships of accounts, whether the caller can see them or not: for transactions across tenants. */

/** The tenant that a user belongs to: the system, one partner or one organization. */
export interface Tenant {
  scope: Scope;
  partnerId: string | null;
  orgId: string | null;
}

/** The permissions of a member in the tenant. */
export interface Grant {
  roleId: string;
  orgAccess: 'all' | 'selected' | 'none';
  orgIds: string[];
}

export async function addMembership(
  tx: Tx,
  userId: string,
  { partnerId, orgId }: Omit<Tenant, 'scope'>,
  { roleId, orgAccess, orgIds }: Grant,
): Promise<void> {
  if (partnerId !== null) {
    await PartnerMembership.query(tx).insert({ userId, roleId, partnerId, orgAccess, orgIds });
  } else if (orgId !== null) await OrganizationMembership.query(tx).insert({ userId, roleId, orgId });
  else await SystemMembership.query(tx).insert({ userId, roleId });
}

/** Whether the account is a member of any tenant. */
export async function hasMembership(tx: Tx, userId: string): Promise<boolean> {
  const { rows } = await tx.raw(
    `select exists (select from system_users where user_id = :userId)
      or exists (select from partner_users where user_id = :userId)
      or exists (select from organization_users where user_id = :userId) as present`,
    { userId },
  );
  return rows[0]?.present === true;
}

/**
 * Removes memberships in which the account can do nothing, not even leave: those of deleted tenants, and those of a partner
 * that is not approved yet or has churned.
 * @returns the tenants that it left
 */
export async function leaveUnusableTenants(
  tx: Tx,
  userId: string,
): Promise<{ partnerId: string; orgId: string | null }[]> {
  const unusable = `p.deleted_at is not null or p.status in ('pending', 'churned')`;
  const { rows } = await tx.raw<{ rows: { partnerId: string; orgId: string | null }[] }>(
    `with left_partners as (
      delete from partner_users m using partners p
      where m.user_id = :userId and p.id = m.partner_id and (${unusable})
      returning m.partner_id, null::uuid as org_id
    ), left_organizations as (
      delete from organization_users m using organizations o, partners p
      where m.user_id = :userId and o.id = m.org_id and p.id = o.partner_id and (o.deleted_at is not null or ${unusable})
      returning o.partner_id, m.org_id
    )
    select partner_id as "partnerId", org_id as "orgId" from left_partners
    union all select partner_id, org_id from left_organizations`,
    { userId },
  );
  return rows;
}

/** Removes every membership of the account. */
export async function removeMemberships(tx: Tx, userId: string): Promise<void> {
  await SystemMembership.query(tx).deleteById(userId);
  await PartnerMembership.query(tx).deleteById(userId);
  await OrganizationMembership.query(tx).deleteById(userId);
}

/** The facts that decide whether a member of a tenant can sign in by password, and with which permissions. */
export interface SignInFacts {
  userId: string;
  status: User['status'];
  hasPassword: boolean;
  mfaEnabled: boolean;
  permissions: string[];
}

/** Returns the users among them who are members of the organization, or of the partner if that is null. */
export async function membersAmong(
  tx: Tx,
  { partnerId, orgId }: Omit<Tenant, 'scope'>,
  userIds: readonly string[],
): Promise<SignInFacts[]> {
  if (userIds.length === 0) return [];
  const { rows } = await tx.raw<{ rows: SignInFacts[] }>(
    `select u.id as "userId", u.status, u.password_hash is not null as "hasPassword", u.mfa_enabled as "mfaEnabled",
      r.permissions
    from ${orgId === null ? 'partner_users' : 'organization_users'} m
    join users u on u.id = m.user_id join roles r on r.id = m.role_id
    where ${orgId === null ? 'm.partner_id' : 'm.org_id'} = ? and u.id = any(?::uuid[])`,
    [orgId ?? partnerId, [...userIds]] as string[],
  );
  return rows;
}

export interface KnownPerson {
  name: string;
  email: string;
  roleName: string;
}

/** Present names of those of the ids that are users whom the caller can see. */
export async function knownPeople(
  ctx: Pick<Context, 'tx' | 'caller'>,
  ids: readonly string[],
): Promise<Map<string, KnownPerson>> {
  if (ids.length === 0) return new Map();
  const people = await visibleMembers(ctx)
    .whereRaw('p.id = any(?::uuid[])', [[...new Set(ids)]])
    .select<(KnownPerson & { id: string })[]>({
      id: 'p.id',
      name: 'p.name',
      email: 'p.email',
      roleName: 'r.name',
    });
  return new Map(people.map((member) => [member.id, member]));
}

export async function hasUsers(tx: Tx): Promise<boolean> {
  const { rows } = await tx.raw('select exists (select from users) as present');
  return rows[0]?.present === true;
}

export async function removeExpired(
  ctx: Context,
  email: string,
  { partnerId, orgId }: Tenant,
): Promise<void> {
  await ctx.tx.raw(
    `delete from membership_invitations
    where partner_id is not distinct from :partnerId::uuid and org_id is not distinct from :orgId::uuid
      and expires_at <= now() and ${hasAddressIn('email', ':forms')}`,
    { partnerId, orgId, forms: addressForms(email) } as Record<string, string | string[] | null>,
  );
}

/** Lets no other transaction create users until this one ends. */
export async function lockUsers(tx: Tx): Promise<void> {
  await tx.raw('lock table users in share row exclusive mode');
}

/** Inserts a user unless the address, in any of its forms, has an account. Returns whether it was inserted. */
export async function insertUserIfNew(
  tx: Tx,
  user: { id: string; email: string; name: string; passwordHash: string; emailVerifiedAt: Date | null },
): Promise<boolean> {
  const { rowCount } = await tx.raw(
    `insert into users (id, email, name, password_hash, email_verified_at)
    select :id, :email, :name, :passwordHash, :emailVerifiedAt::timestamptz
    where not exists (select from users where ${hasAddressIn('email', ':forms')})
    on conflict (lower(email)) do nothing`,
    { ...user, forms: addressForms(user.email) },
  );
  return rowCount === 1;
}
