import type { Tx } from '../../../platform/db/transaction.ts';
import { EVERYTHING } from '../../roles/index.ts';
import type { SsoProvider } from './provider.model.ts';

export type ProviderOwner = Pick<SsoProvider, 'orgId' | 'partnerId'>;

/**
 * What is wrong with the break-glass people of a provider that is enforced, as a rule for their field; `undefined` where at
 * least one of them can get in without the identity provider. Call it after the change that it judges: from then until the
 * end of the transaction, no other change of the owner's providers or people is judged.
 */
export async function breakGlassFault(
  tx: Tx,
  { orgId, partnerId, breakGlassUserIds }: ProviderOwner & Pick<SsoProvider, 'breakGlassUserIds'>,
): Promise<string | undefined> {
  await lockBreakGlass(tx, { orgId, partnerId });
  if (await hasUsable(tx, { orgId, partnerId }, breakGlassUserIds)) return undefined;
  return partnerId === null
    ? 'must name at least one active Organization Admin who has a password'
    : 'must name at least one active Partner Admin who has a password and a second factor';
}

/**
 * Of two transactions at once, one that enforces and one that disables a named person, the second to come here sees what the
 * first has done.
 */
export async function lockBreakGlass(tx: Tx, { orgId, partnerId }: ProviderOwner): Promise<void> {
  const lock = `break-glass people of ${partnerId ?? orgId ?? ''}`;
  await tx.raw('select pg_advisory_xact_lock(hashtextextended(?, 0))', [lock]);
}

/** Whether at least one of the named people is an administrator of the owner and can sign in by password. */
export async function hasUsable(
  tx: Tx,
  { orgId, partnerId }: ProviderOwner,
  userIds: readonly string[],
): Promise<boolean> {
  const { rows } = await tx.raw(
    `select exists (
      select from users u
      left join partner_users p on p.user_id = u.id and p.partner_id = :partnerId::uuid
      left join organization_users o on o.user_id = u.id and o.org_id = :orgId::uuid
      join roles r on r.id = coalesce(p.role_id, o.role_id)
      where u.id = any(:userIds::uuid[]) and u.status = 'active' and u.password_hash is not null
        and r.permissions @> array[:everything] and (p.user_id is null or u.mfa_enabled)
    ) as usable`,
    { orgId, partnerId, userIds: [...userIds], everything: EVERYTHING },
  );
  return rows[0]?.usable === true;
}
