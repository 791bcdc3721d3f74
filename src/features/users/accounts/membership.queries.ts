import type { Scope } from '../../../platform/db/tenant-scope.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { OrganizationMembership, PartnerMembership, SystemMembership } from './membership.model.ts';

/** Memberships of accounts, whether the caller can see them or not: for transactions across tenants. */

/** The tenant that a user belongs to: the system, one partner or one organization. */
export interface Tenant {
  scope: Scope;
  partnerId: string | null;
  orgId: string | null;
}

/** What a member may do in the tenant. */
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
