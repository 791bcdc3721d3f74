import { clock } from '../../../clock.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import { beginPrune, endPrune, extendPrune } from '../repositories/repository.service.ts';

/** For how long devices are kept out at a time. A server that dies keeps them out no longer than this. */
const EXCLUSIVE_MS = 10 * 60_000;
const RENEW_MS = 3 * 60_000;

/**
 * Keeps devices out of a repository for as long as the work takes, and aborts the work where that cannot be had any
 * longer. Throws `conflict` while a device writes.
 */
export async function exclusively(
  db: Db,
  repositoryId: string,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const until = () => new Date(clock.now() + EXCLUSIVE_MS);
  await withSystem(db, 'keep devices out of a repository', (tx) => beginPrune(tx, repositoryId, until()));
  const lost = new AbortController();
  const renewal = clock.setInterval(() => {
    withSystem(db, 'keep devices out for longer', (tx) => extendPrune(tx, repositoryId, until())).catch(
      (error: unknown) => lost.abort(error),
    );
  }, RENEW_MS);
  try {
    await work(AbortSignal.any([signal, lost.signal]));
  } finally {
    clock.clear(renewal);
    await withSystem(db, 'let devices in again', (tx) => endPrune(tx, repositoryId));
  }
}
