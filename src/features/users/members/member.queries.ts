import type { Caller, Context } from '../../../platform/context.ts';
import type { Query } from '../../../platform/db/pool.ts';
import { inTenant } from '../../../platform/db/tenant-filter.ts';
import type { Scope } from '../../../platform/db/tenant-scope.ts';
import { notFound } from '../../../platform/errors.ts';

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

export function visibleMembers(ctx: Context): Query {
  return ctx.tx.from(ctx.tx.raw(`(${membersSql(ctx.caller)}) as p`)).join('roles as r', 'r.id', 'p.role_id');
}

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
