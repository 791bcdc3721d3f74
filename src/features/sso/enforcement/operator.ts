import type { Db } from '../../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../../platform/db/transaction.ts';
import type { AuditTrail } from '../../../platform/http/audit.ts';
import type { Logger } from '../../../platform/logger.ts';
import { type Owner, ownerOf } from '../providers/owner.ts';
import { SsoProvider } from '../providers/provider.model.ts';
import { enforcing, type GovernedPerson, peopleGovernedBy } from './governs.queries.ts';

/** Commands of the operator about enforcement. They work across tenants and without a sign-in. */

export interface EnforcedProvider {
  provider: SsoProvider;
  owner: Owner;
  people: GovernedPerson[];
}

export function listEnforced(db: Db): Promise<EnforcedProvider[]> {
  return withSystem(db, 'list the identity providers that are enforced', async (tx) => {
    const found: EnforcedProvider[] = [];
    for (const provider of await enforcing(tx)) found.push(await described(tx, provider));
    return found;
  });
}

/**
 * Switches the enforcement of a provider off, and ends the sign-ins with it that are in progress.
 * @returns undefined if the provider does not exist; `wasEnforced` is false if enforcement was off already
 */
export function unlockProvider(
  { db, log, audit }: { db: Db; log: Logger; audit: Pick<AuditTrail, 'record'> },
  providerId: string,
): Promise<(EnforcedProvider & { wasEnforced: boolean }) | undefined> {
  return withSystem(db, 'switch the enforcement of an identity provider off', async (tx) => {
    const provider = await SsoProvider.query(tx).findById(providerId).forUpdate();
    if (provider === undefined) return undefined;
    const enforced = await described(tx, provider);
    if (!provider.enforceSso) return { ...enforced, wasEnforced: false };
    await provider.$query(tx).patch({ enforceSso: false, configVersion: provider.configVersion + 1 });
    const { orgId, partnerId } = enforced.owner;
    await audit.record(tx, {
      action: 'sso.enforcement.unlock',
      resourceType: 'sso_provider',
      resourceId: provider.id,
      resourceName: provider.name,
      details: {
        before: { enforceSSO: true },
        after: { enforceSSO: false },
        people: enforced.people.length,
      },
      actor: { kind: 'system', orgId, partnerId },
      state: { client: { ip: null, userAgent: null }, log },
    });
    return { ...enforced, wasEnforced: true };
  });
}

async function described(tx: Tx, provider: SsoProvider): Promise<EnforcedProvider> {
  return { provider, owner: await ownerOf(tx, provider), people: await peopleGovernedBy(tx, provider) };
}
