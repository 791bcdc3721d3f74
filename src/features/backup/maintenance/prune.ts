import { clock } from '../../../clock.ts';
import { EngineError, forgetSnapshots, prune, unlockOwn } from '../../../engine/index.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import { exclusively } from '../access/exclusive.ts';
import { withRepository } from '../access/open-repository.ts';
import { BackupRepository } from '../repositories/repository.model.ts';
import { holdTrash } from '../repositories/repository.service.ts';
import type { Outdated } from './retention.service.ts';
import { setAsideFalsehoods, setAsideIncomplete, type SetAsideParts } from './set-aside.ts';

/**
 * Removes snapshots and the data that only they need. Devices cannot write meanwhile; `conflict` is thrown while one of
 * them does.
 *
 * A device knows the key of its repository, and could upload an index or a pack that claims to hold what it does not, so
 * that an honest prune deletes the packs that do. Such falsehoods are therefore set aside first.
 * What is deleted goes to the trash, which is held until integrity verifications have read everything that is left.
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
        // Without room for data that is written anew, packs that nobody needs go nevertheless.
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
