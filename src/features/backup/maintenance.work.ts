import { z } from 'zod';
import { clock } from '../../clock.ts';
import { EngineError, forgetSnapshots, prune, rebuildIndex, unlockOwn } from '../../engine/index.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import { defineJob, PermanentJobFailure } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import { BackupRepository, holdTrash } from '../backup-store/index.ts';
import { hasUnindexedPacks, repositoriesToRetain } from './snapshot.queries.ts';
import { exclusively, type RepositoryAccessParts, withRepository } from './repository-access.ts';
import {
  findDuePrune,
  findOutdated,
  markRemoved,
  type Outdated,
  setAsideFalsehoods,
  setAsideIncomplete,
  type SetAsideParts,
} from './retention.service.ts';
import { reconcileSnapshots, type ReconciliationParts } from './snapshot-reconciliation.work.ts';

/** Added with the end of a backup that made no snapshot. A repository that is in use is tried again. */
export const REINDEX = defineJob({
  name: 'backup.reindex',
  input: z.object({ repositoryId: z.uuid() }),
  result: z.object({ wasRebuilt: z.boolean() }),
  attempts: 4,
  inCluster: 2,
});

/**
 * Writes the index of packs that a backup has sent before it was interrupted, so that the next one does not send them
 * again: restic writes it every ten minutes and at its end. Of the store the server does it, because restic then deletes
 * the index before, which a device may not do (docs/decisions/backup-restores.md).
 */
export async function reindex(
  parts: RepositoryAccessParts,
  repositoryId: string,
  signal: AbortSignal,
): Promise<{ wasRebuilt: boolean }> {
  const isNeeded = await withSystem(parts.db, 'whether packs of a repository have no index', async (tx) => {
    const repository = await BackupRepository.query(tx)
      .findOne({ id: repositoryId, provider: 'server' })
      .whereNotNull('initialized_at');
    if (repository === undefined) return false;
    return hasUnindexedPacks(tx, repositoryId);
  });
  if (!isNeeded) return { wasRebuilt: false };
  await exclusively(parts.db, repositoryId, signal, (stop) =>
    withRepository(parts, { repositoryId, role: 'server' }, async (engine, repository) => {
      await unlockOwn(engine, repository, {}, { signal: stop });
      await rebuildIndex(engine, repository, {}, { signal: stop });
    }),
  );
  return { wasRebuilt: true };
}

const DAILY = defineJob({
  name: 'backup.retention',
  input: z.object({}),
  result: z.object({ repositories: z.number() }),
  inCluster: 1,
});

/** A backup that is running, or a server that was killed, is waited for: nine attempts take about eight hours. */
export const RETAIN = defineJob({
  name: 'backup.retain',
  input: z.object({ repositoryId: z.uuid() }),
  result: z.object({ removed: z.number(), pruned: z.boolean() }),
  attempts: 9,
  backOff: { firstMs: 120_000, longestMs: 7_200_000 },
  inCluster: 4,
});

/** Every day: removes the snapshots that retention does not keep, and then the data that only they needed. */
type MaintenanceParts = SetAsideParts & ReconciliationParts;

export function addMaintenanceJobs(jobs: Jobs, parts: MaintenanceParts): void {
  jobs.handle(DAILY, ({ signal }) => addRetentions(jobs, parts.db, signal));
  jobs.handle(RETAIN, ({ input, signal }) => retain(parts, input.repositoryId, signal));
  jobs.schedule(DAILY, { cron: '10 4 * * *', timeZone: 'UTC' }, {});
}

const AT_ONCE = 1000;

/** Adds retentions for the repositories of the store that the server prunes and that can have something to remove. */
async function addRetentions(jobs: Jobs, db: Db, signal: AbortSignal): Promise<{ repositories: number }> {
  const day = clock.date().toISOString().slice(0, 10);
  let repositories = 0;
  for (let after = NONE; !signal.aborted; ) {
    const page = await withSystem(db, 'find the repositories whose retention is due', async (tx) => {
      const rows = await repositoriesToRetain(tx, { after, limit: AT_ONCE });
      for (const { id, partnerId } of rows) {
        await jobs.enqueue(tx, RETAIN, { repositoryId: id }, { key: `${id} ${day}`, partnerId });
      }
      return rows;
    });
    repositories += page.length;
    if (page.length < AT_ONCE) break;
    after = page.at(-1)?.id ?? after;
  }
  return { repositories };
}

const NONE = '00000000-0000-0000-0000-000000000000';

async function retain(
  parts: MaintenanceParts,
  repositoryId: string,
  signal: AbortSignal,
): Promise<{ removed: number; pruned: boolean }> {
  const removed = await markRemoved(parts.db, repositoryId, await findOutdated(parts.db, repositoryId));
  const outdated = await findDuePrune(parts.db, repositoryId);
  if (outdated === undefined) return { removed, pruned: false };
  try {
    await pruneRepository(parts, { repositoryId, outdated }, signal);
  } catch (error) {
    if (error instanceof EngineError && ['WRONG_KEY', 'REPOSITORY_DAMAGED'].includes(error.code)) {
      throw new PermanentJobFailure(error.message, { cause: error });
    }
    throw error;
  }
  // Pruned objects stay pruned if this fails; the next hour makes up for it.
  await reconcileSnapshots(parts, [repositoryId], signal).catch((error: unknown) =>
    parts.log.warn({ err: error, repositoryId }, 'backup_snapshots.not_reconciled'),
  );
  return { removed, pruned: true };
}

/**
 * Removes snapshots and the data that only they need. Devices cannot write meanwhile; `conflict` is thrown while one of
 * them does.
 *
 * A device knows the key of its repository, and could upload an index or a pack that claims to hold what it does not, so
 * that an honest prune deletes the packs that do. Such indexes and packs are therefore set aside first.
 * Deleted objects go to the trash, which is held until integrity verifications have read everything that is left.
 */
export async function pruneRepository(
  parts: SetAsideParts,
  { repositoryId, outdated }: { repositoryId: string; outdated: readonly Outdated[] },
  signal: AbortSignal,
): Promise<void> {
  const { db } = parts;
  await exclusively(db, repositoryId, signal, (stop) =>
    withRepository(parts, { repositoryId, role: 'server' }, async (engine, repository) => {
      const options = { signal: stop };
      await unlockOwn(engine, repository, {}, options);
      await withSystem(db, 'hold what a prune is about to delete', (tx) => holdTrash(tx, repositoryId, true));
      const ids = outdated.map(({ engineId }) => engineId);
      await setAsideFalsehoods(parts, { repositoryId, engine, repository }, options);
      await forgetSnapshots(engine, repository, ids, options);
      await prune(engine, repository, options).catch(async (error: unknown) => {
        if (!(error instanceof EngineError)) throw error;
        // Without room for data that is written anew, unused packs go nevertheless.
        if (error.code === 'DESTINATION_FULL') {
          return prune(engine, repository, { ...options, maxRepackMiB: 0 });
        }
        if (error.code !== 'REPOSITORY_DAMAGED') throw error;
        if ((await setAsideIncomplete(parts, { repositoryId, repository }, options)) === 0) throw error;
        return prune(engine, repository, options);
      });
    }),
  );
  await withSystem(db, 'note that a repository was pruned', (tx) =>
    BackupRepository.query(tx)
      .findById(repositoryId)
      .patch({ pruneDueSince: null, prunedAt: clock.date(), readPartsDone: 0, readParts: 0 }),
  );
}
