import type { Tx } from '../../platform/db/transaction.ts';
import type { AgentRelease } from './release.model.ts';

/** Locks all releases until the transaction ends: no other transaction registers, promotes or removes one, or removes a file. */
export async function lockReleases(tx: Tx): Promise<void> {
  await tx.raw(`select pg_advisory_xact_lock(hashtextextended('agent releases', 0))`);
}

/** Whether a partner or an organization pins the version of a release. The transaction must see all of them. */
export async function isPinned(tx: Tx, { component, version }: AgentRelease): Promise<boolean> {
  const pinned = (table: 'partners' | 'organizations') =>
    tx(table)
      .select('id')
      .whereNull('deleted_at')
      .whereRaw(`settings #>> array['agentUpdates', 'pins', ?] = ?`, [component, version]);
  return (await pinned('partners').unionAll(pinned('organizations')).first()) !== undefined;
}
