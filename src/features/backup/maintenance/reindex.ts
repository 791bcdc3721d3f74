import { z } from 'zod';
import { rebuildIndex, unlockOwn } from '../../../engine/index.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import { defineJob } from '../../../platform/jobs/definition.ts';
import { exclusively } from '../access/exclusive.ts';
import { type RepositoryAccessParts, withRepository } from '../access/open-repository.ts';
import { BackupRepository } from '../repositories/repository.model.ts';

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
 * the index before, which a device may not do (docs/decisions/backup-on-devices.md).
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
    const { rows } = await tx.raw<{ rows: unknown[] }>(UNINDEXED, [repositoryId]);
    return rows.length > 0;
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

/** Packs that have arrived since the newest index. It may name them nevertheless: then restic finds nothing to do. */
const UNINDEXED = `
  select o.name from backup_objects o
  where o.repository_id = ? and o.type = 'data' and o.trashed_at is null and o.lost_at is null
    and o.arrived_at > coalesce((
      select max(i.arrived_at) from backup_objects i
      where i.repository_id = o.repository_id and i.type = 'index' and i.trashed_at is null), '-infinity')
  limit 1`;
