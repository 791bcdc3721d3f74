import { z } from 'zod';
import type { Db } from '../../../platform/db/pool.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import { defineJob } from '../../../platform/jobs/definition.ts';
import type { Jobs } from '../../../platform/jobs/jobs.ts';
import type { Logger } from '../../../platform/logger.ts';
import { type FindingParts, recordFound } from './found-snapshots.ts';
import { findUnknown, holdTrashOfHeld, judgeable, markGone, unmarkReturned } from './presence.ts';

/**
 * Rows of snapshots follow what is really in the repositories of the store: somebody can have used restic by hand, or have
 * restored the folder of the store. Only what the store recorded counts, and when it has; the times that a device writes
 * are shown, and decide nothing.
 */

export interface ReconciliationParts extends FindingParts {
  log: Logger;
}

export interface SnapshotDifferences {
  gone: number;
  returned: number;
  found: number;
}

const RECONCILE = defineJob({
  name: 'backup.reconcile-snapshots',
  input: z.object({}),
  result: z.object({ gone: z.number(), returned: z.number(), found: z.number() }),
  attempts: 1,
  inCluster: 1,
});

const REPOSITORIES_AT_ONCE = 500;
/** Each repository with something unknown derives a key. What is left is done by the next run. */
const FOUND_IN_RUN = 2000;
const FOUND_AT_ONCE = 200;
const PASSES = 20;

export function addReconciliationJob(jobs: Jobs, parts: ReconciliationParts): void {
  jobs.handle(RECONCILE, ({ signal }) => reconcileAllSnapshots(parts, signal));
  jobs.schedule(RECONCILE, { cron: '40 * * * *', timeZone: 'UTC' }, {});
}

export async function reconcileAllSnapshots(
  parts: ReconciliationParts,
  signal: AbortSignal,
): Promise<SnapshotDifferences> {
  const total: SnapshotDifferences = { gone: 0, returned: 0, found: 0 };
  for (let after = NONE; !signal.aborted; ) {
    const ids = await repositoriesAfter(parts.db, after);
    const { gone, returned, found } = await reconcileSnapshots(
      parts,
      ids,
      signal,
      FOUND_IN_RUN - total.found,
    );
    total.gone += gone;
    total.returned += returned;
    total.found += found;
    if (ids.length < REPOSITORIES_AT_ONCE) break;
    after = ids.at(-1) ?? after;
  }
  return total;
}

const NONE = '00000000-0000-0000-0000-000000000000';

const repositoriesAfter = (db: Db, after: string): Promise<string[]> =>
  withSystem(db, 'compare snapshots with their repositories', (tx) =>
    tx('backup_repositories')
      .where({ provider: 'server' })
      .where('id', '>', after)
      .orderBy('id')
      .limit(REPOSITORIES_AT_ONCE)
      .pluck('id'),
  );

/** The same for some repositories, at once. */
export async function reconcileSnapshots(
  parts: ReconciliationParts,
  repositoryIds: string[],
  signal: AbortSignal,
  foundMax = FOUND_AT_ONCE,
): Promise<SnapshotDifferences> {
  const { db, log } = parts;
  const compared = await withSystem(db, 'compare snapshots with their repositories', async (tx) => {
    const ids = await judgeable(tx, repositoryIds);
    return { gone: await markGone(tx, ids), returned: await unmarkReturned(tx, ids), ids };
  });
  const { gone, returned, ids } = compared;
  const found = await recordUnknown(parts, ids, signal, foundMax);
  const held = await withSystem(db, 'keep the trash with snapshots that must not go', (tx) =>
    holdTrashOfHeld(tx, ids),
  );
  for (const repositoryId of held) log.error({ repositoryId }, 'backup_snapshots.held_one_removed');
  if (gone + returned + found > 0) log.warn({ gone, returned, found }, 'backup_snapshots.reconciled');
  return { gone, returned, found };
}

/** A repository that cannot be read stops no other one. */
async function recordUnknown(
  parts: ReconciliationParts,
  repositoryIds: string[],
  signal: AbortSignal,
  foundMax: number,
): Promise<number> {
  let found = 0;
  const failed = new Set<string>();
  for (let pass = 0; pass < PASSES && found < foundMax && !signal.aborted; pass++) {
    const ids = repositoryIds.filter((id) => !failed.has(id));
    const unknown = await withSystem(parts.db, 'find snapshots that nobody has recorded', (tx) =>
      findUnknown(tx, ids, FOUND_AT_ONCE),
    );
    if (unknown.length === 0) break;
    for (const repositoryId of new Set(unknown.map((one) => one.repositoryId))) {
      if (signal.aborted) break;
      const own = unknown.filter((one) => one.repositoryId === repositoryId);
      try {
        found += await recordFound(parts, repositoryId, own, signal);
      } catch (error) {
        failed.add(repositoryId);
        parts.log.warn({ err: error, repositoryId }, 'backup_snapshots.not_read');
      }
    }
  }
  return found;
}
