import type { Tx } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import type { UserRights } from '../auth/index.ts';

/** The maker as one of that organization and nothing beside it; `undefined` if they may not act there now. */
export async function rightsWithin(
  tx: Tx,
  maker: UserRights,
  orgId: string,
): Promise<UserRights | undefined> {
  const { rows } = await tx.raw(
    `select p.id as partner_id, p.status from organizations o join partners p on p.id = o.partner_id
    where o.id = ? and o.deleted_at is null and p.deleted_at is null`,
    [orgId],
  );
  const partner = rows[0] as { partner_id: string; status: string } | undefined;
  if (partner === undefined) return undefined;
  const allowed =
    maker.scope === 'system' ||
    (maker.orgAccess === 'all' ? maker.partnerId === partner.partner_id : maker.orgIds.includes(orgId));
  if (!allowed) return undefined;
  if (partner.status !== 'active') {
    throw new AppError('partner_inactive', 'This provider account is not active.');
  }
  return { ...maker, scope: 'organization', partnerId: null, orgId, orgAccess: 'listed', orgIds: [orgId] };
}

/** Adds to the counts of requests of many keys. */
export async function addUses(
  tx: Tx,
  uses: readonly { id: string; requests: number; at: Date }[],
): Promise<void> {
  await tx.raw(
    `update api_keys k set usage_count = k.usage_count + u.requests, last_used_at = greatest(k.last_used_at, u.at)
    from unnest(?::uuid[], ?::bigint[], ?::timestamptz[]) as u (id, requests, at) where k.id = u.id`,
    [
      uses.map(({ id }) => id),
      uses.map(({ requests }) => String(requests)),
      uses.map(({ at }) => at.toISOString()),
    ],
  );
}
