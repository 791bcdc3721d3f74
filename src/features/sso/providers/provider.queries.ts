import type { Context } from '../../../platform/context.ts';
import { inTenant } from '../../../platform/db/tenant-filter.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { SsoProvider } from './provider.model.ts';

export type ProviderOwner = { orgId: string } | { partnerId: string };

const ownedBy = (owner: ProviderOwner) =>
  'orgId' in owner ? { org_id: owner.orgId } : { partner_id: owner.partnerId };

/** The provider that sign-ins of an organization or a partner go to: the oldest active one (SPEC 4.8). */
export async function activeProviderOf(tx: Tx, owner: ProviderOwner): Promise<SsoProvider | undefined> {
  return SsoProvider.query(tx)
    .where({ ...ownedBy(owner), status: 'active' })
    .orderBy(['created_at', 'id'])
    .first();
}

/** The providers of the caller's partner and of the organizations that the caller can access. */
export function visibleProviders(ctx: Pick<Context, 'tx' | 'caller'>) {
  const providers = SsoProvider.query(ctx.tx);
  const { scope, partnerId } = ctx.caller;
  if (scope === 'system') return providers;
  return providers.where(
    (either) =>
      void either
        .whereRaw(inTenant(ctx.caller, 'sso_providers.org_id'))
        .orWhere('sso_providers.partner_id', partnerId),
  );
}
