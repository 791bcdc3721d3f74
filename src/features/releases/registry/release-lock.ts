import type { Tx } from '../../../platform/db/transaction.ts';

/** Until the transaction ends, nobody else registers, promotes or removes a release, or removes its file. */
export async function lockReleases(tx: Tx): Promise<void> {
  await tx.raw(`select pg_advisory_xact_lock(hashtextextended('agent releases', 0))`);
}
