import type { Tx } from '../../../platform/db/transaction.ts';
import type { Tenant } from '../accounts/membership.queries.ts';
import type { User } from '../accounts/user.model.ts';

/** What decides whether a member of a tenant can sign in by password, and what they can do then. */
export interface SignInFacts {
  userId: string;
  status: User['status'];
  hasPassword: boolean;
  mfaEnabled: boolean;
  permissions: string[];
}

/** Those of the users who are members of the organization, or of the partner where that is null. */
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
