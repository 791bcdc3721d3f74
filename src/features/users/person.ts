import type { Caller, Context } from '../../platform/context.ts';
import type { Query } from '../../platform/db/pool.ts';
import { inTenant } from '../../platform/db/tenant-filter.ts';
import type { Scope } from '../../platform/db/tenant-scope.ts';
import { notFound } from '../../platform/errors.ts';

/** The read side of a person: the account with its one membership and the role in it. */
export interface Person {
  id: string;
  email: string;
  name: string;
  status: 'active' | 'invited' | 'disabled';
  mfaEnabled: boolean;
  hasPassword: boolean;
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

const PARTNER_SQL = `select user_id, 'partner' as scope, partner_id, null::uuid as org_id, role_id, org_access, org_ids
  from partner_users`;
const ORGANIZATION_SQL = `select user_id, 'organization', null::uuid, org_id, role_id, null, '{}'::uuid[]
  from organization_users`;
const SYSTEM_SQL = `select user_id, 'system', null::uuid, null::uuid, role_id, null, '{}'::uuid[] from system_users`;

/** The members whom a caller looks after: a partner's and those of its accessible organizations, or an organization's. */
function membersSql(caller: Caller): string {
  const organizations = `${ORGANIZATION_SQL} where ${inTenant(caller, 'org_id')}`;
  if (caller.scope === 'system') return `${PARTNER_SQL} union all ${organizations} union all ${SYSTEM_SQL}`;
  return `${PARTNER_SQL} where partner_id = (select app_partner_id()) union all ${organizations}`;
}

export function visiblePeople(ctx: Context): Query {
  return ctx.tx
    .from(ctx.tx.raw(`(${membersSql(ctx.caller)}) as m`))
    .join('users as u', 'u.id', 'm.user_id')
    .join('roles as r', 'r.id', 'm.role_id');
}

export function selectPeople(query: Query): PromiseLike<Person[]> {
  return query.select({
    id: 'u.id',
    email: 'u.email',
    name: 'u.name',
    status: 'u.status',
    mfaEnabled: 'u.mfa_enabled',
    hasPassword: query.client.raw('u.password_hash is not null'),
    scope: 'm.scope',
    partnerId: 'm.partner_id',
    orgId: 'm.org_id',
    roleId: 'm.role_id',
    roleName: 'r.name',
    permissions: 'r.permissions',
    orgAccess: 'm.org_access',
    orgIds: 'm.org_ids',
    lastLoginAt: 'u.last_login_at',
    createdAt: 'u.created_at',
    updatedAt: 'u.updated_at',
  });
}

export async function readPerson(ctx: Context, id: string): Promise<Person> {
  const [person] = await selectPeople(visiblePeople(ctx).where('u.id', id));
  if (person === undefined) throw notFound('User');
  return person;
}
