import { clock } from '../../clock.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError, notFound } from '../../platform/errors.ts';
import { BackupRepository } from './repository.model.ts';
import { isWritten } from './store.queries.ts';

/** Registers an empty repository. `makeRepository` makes it one that restic can open. */
export async function createRepository(
  tx: Tx,
  repository: Pick<BackupRepository, 'orgId' | 'deviceId' | 'configId'> &
    Partial<
      Pick<BackupRepository, 'provider' | 'encryptionKeyId' | 'keyVersion' | 'isVault' | 'initializedAt'>
    >,
): Promise<BackupRepository> {
  return BackupRepository.query(tx).insertAndFetch(repository);
}

/** For as long as a repository is held, nothing is removed from its trash. */
export async function holdTrash(tx: Tx, repositoryId: string, isHeld: boolean): Promise<void> {
  const changed = await BackupRepository.query(tx)
    .findById(repositoryId)
    .patch({ trashHeldAt: isHeld ? clock.date() : null });
  if (changed === 0) throw notFound('Repository');
}

/**
 * Keeps devices from writing to a repository until `until`, so that the server can prune it. Throws `conflict` while a
 * device has a credential for it, or while it is pruned already.
 */
export async function beginPrune(tx: Tx, repositoryId: string, until: Date): Promise<void> {
  const found = await BackupRepository.query(tx).findById(repositoryId).forNoKeyUpdate();
  if (found === undefined) throw notFound('Repository');
  if (found.pruningUntil !== null && found.pruningUntil > clock.date()) {
    throw new AppError('conflict', 'The repository is being pruned.');
  }
  if (await isWritten(tx, repositoryId)) {
    throw new AppError('conflict', 'A backup into the repository is running.');
  }
  await found.$query(tx).patch({ pruningUntil: until });
}

export async function endPrune(tx: Tx, repositoryId: string): Promise<void> {
  await BackupRepository.query(tx).findById(repositoryId).patch({ pruningUntil: null });
}

/** Throws `conflict` if the time has passed, so that a device may be writing already. */
export async function extendPrune(tx: Tx, repositoryId: string, until: Date): Promise<void> {
  const changed = await BackupRepository.query(tx)
    .findById(repositoryId)
    .whereRaw('pruning_until > now()')
    .patch({ pruningUntil: until });
  if (changed === 0) throw new AppError('conflict', 'The repository is not being pruned any more.');
}

/** The free space at a destination of the customer, as a device has found it. The store of Muster knows its own. */
export async function recordDestinationSpace(
  tx: Tx,
  repositoryId: string | null,
  room: { freeBytes: number; totalBytes?: number | undefined } | undefined,
): Promise<void> {
  if (repositoryId === null) return;
  await BackupRepository.query(tx)
    .findById(repositoryId)
    .whereNot('provider', 'server')
    .patch({
      destinationFreeBytes: room === undefined ? null : String(room.freeBytes),
      ...(room?.totalBytes === undefined ? {} : { destinationTotalBytes: String(room.totalBytes) }),
    });
}
