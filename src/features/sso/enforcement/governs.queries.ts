import type { Tx } from '../../../platform/db/transaction.ts';
import { SsoProvider } from '../providers/provider.model.ts';

/** The enforced providers, oldest first. */
export const enforcing = (tx: Tx) =>
  SsoProvider.query(tx).where({ status: 'active', enforce_sso: true }).orderBy(['created_at', 'id']);

/** The enforced providers of the person's partner or organization. Users of the system scope are never governed. */
export const providersGoverning = (tx: Tx, userId: string) =>
  enforcing(tx).whereRaw(
    `(partner_id = (select partner_id from partner_users where user_id = :userId)
      or org_id = (select org_id from organization_users where user_id = :userId))
    and not exists (select from system_users where user_id = :userId)`,
    { userId },
  );

export interface GovernedPerson {
  id: string;
  email: string;
  hasPassword: boolean;
}

/** The people whom a provider governs while it is enforced, in the order of their addresses. */
export async function peopleGovernedBy(
  tx: Tx,
  { orgId, partnerId }: Pick<SsoProvider, 'orgId' | 'partnerId'>,
): Promise<GovernedPerson[]> {
  const { rows } = await tx.raw<{ rows: GovernedPerson[] }>(
    `select u.id, u.email, u.password_hash is not null as "hasPassword" from users u
    where u.status = 'active' and not exists (select from system_users s where s.user_id = u.id)
      and (u.id in (select user_id from partner_users where partner_id = :partnerId)
        or u.id in (select user_id from organization_users where org_id = :orgId))
    order by lower(u.email)`,
    { orgId, partnerId },
  );
  return rows;
}
