import { inTenant } from '../../../platform/db/tenant-filter.ts';
import type { TenantScope } from '../../../platform/db/tenant-scope.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { SsoProvider } from './provider.model.ts';

export type ProviderOwner = { orgId: string } | { partnerId: string };

const ownedBy = (owner: ProviderOwner) =>
  'orgId' in owner ? { org_id: owner.orgId } : { partner_id: owner.partnerId };

/** The provider that sign-ins of an organization or a partner use: the oldest active one (SPEC 4.8). */
export async function activeProviderOf(tx: Tx, owner: ProviderOwner): Promise<SsoProvider | undefined> {
  return SsoProvider.query(tx)
    .where({ ...ownedBy(owner), status: 'active' })
    .orderBy(['created_at', 'id'])
    .first();
}

/** The providers of the caller's partner and of the organizations that the caller can access. */
export function visibleProviders({ tx, caller }: { tx: Tx; caller: TenantScope }) {
  const providers = SsoProvider.query(tx);
  const { scope, partnerId } = caller;
  if (scope === 'system') return providers;
  return providers.where((either) => {
    void either.whereRaw(inTenant(caller, 'sso_providers.org_id'));
    if (partnerId !== null) void either.orWhere('sso_providers.partner_id', partnerId);
  });
}

/** All permissions that the members of an organization have, each once. Disabled members count, as they may return. */
export async function permissionsOfMembers(tx: Tx, orgId: string): Promise<string[]> {
  const { rows } = await tx.raw<{ rows: { permission: string }[] }>(
    `select distinct unnest(r.permissions) as permission
    from organization_users m join roles r on r.id = m.role_id where m.org_id = ? order by 1`,
    [orgId],
  );
  return rows.map(({ permission }) => permission);
}
