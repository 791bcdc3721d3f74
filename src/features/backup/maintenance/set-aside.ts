import {
  type Engine,
  findFalsePacks,
  findUnreadableSnapshots,
  rebuildIndex,
  type Repository,
} from '../../../engine/index.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import type { Logger } from '../../../platform/logger.ts';
import type { RepositoryAccessParts } from '../access/open-repository.ts';
import { storeSource } from '../reading/store-source.ts';
import { BackupRepository } from '../repositories/repository.model.ts';
import { BackupSnapshot } from '../snapshots/snapshot.model.ts';
import type { ObjectName } from '../store/protocol/object-name.ts';
import { trashObject } from '../store/records/objects.ts';
import type { ObjectStorage } from '../store/storage/storage.ts';
import { BackupVerification } from '../verification/verification.model.ts';

export interface SetAsideParts extends RepositoryAccessParts {
  storage: ObjectStorage;
  log: Logger;
}

interface Opened {
  repositoryId: string;
  engine: Engine;
  repository: Repository;
}

/**
 * Writes the index anew from the packs, and moves to the trash what a device that was taken over can have left to make a
 * prune fail, or delete what is needed: snapshots of which nothing can be read, and packs that do not hold what their
 * headers say. Only data that several packs claim is read, because only of that a prune deletes something that is needed.
 *
 * A snapshot that needs the own data of such a pack cannot be restored afterwards, and restic refuses to prune beside it:
 * until somebody has looked into it, nothing more is removed.
 */
export async function setAsideFalsehoods(
  parts: SetAsideParts,
  { repositoryId, engine, repository }: Opened,
  { signal }: { signal: AbortSignal },
): Promise<void> {
  const { db, storage, log } = parts;
  const source = storeSource({ db, storage }, { repositoryId, asOf: null });
  const { password, keyHint } = repository;
  const query = { password, keyHint };
  const setAside = async (objects: readonly ObjectName[]) => {
    for (const object of objects) {
      const trashedAt = await trashObject(db, repositoryId, object);
      if (trashedAt !== undefined) await storage.setAside(repositoryId, object, trashedAt);
      log.error({ repositoryId, ...object }, 'backup.falsehood_set_aside');
    }
  };
  const snapshots = await findUnreadableSnapshots(source, query, { signal });
  await setAside(snapshots.map((name) => ({ type: 'snapshots', name })));
  if (snapshots.length > 0) await noteRemoved(parts, repositoryId, snapshots);
  await rebuildIndex(engine, repository, { readAllPacks: true }, { signal });
  const packs = await findFalsePacks(source, query, { signal });
  await setAside(packs.map((name) => ({ type: 'data', name })));
  if (packs.length > 0) await rebuildIndex(engine, repository, { readAllPacks: true }, { signal });
  if (snapshots.length + packs.length > 0) await noteFound(parts, repositoryId, { snapshots, packs });
}

/** As a verification that has found errors: so it lowers the readiness, and an alert follows. */
const noteFound = (
  { db }: SetAsideParts,
  repositoryId: string,
  { snapshots, packs }: { snapshots: readonly string[]; packs: readonly string[] },
) =>
  withSystem(db, 'note that a device has written falsehoods', async (tx) => {
    const { orgId, deviceId, configId } = await BackupRepository.query(tx)
      .findById(repositoryId)
      .throwIfNotFound();
    const at = new Date();
    const errors = [
      ...snapshots.map((name) => `Snapshot ${name} cannot be read. It was moved to the trash.`),
      ...packs.map((name) => `Pack ${name} does not hold what it says. It was moved to the trash.`),
    ];
    await BackupVerification.query(tx).insert({
      orgId,
      deviceId,
      configId,
      repositoryId,
      startedAt: at,
      finishedAt: at,
      verificationType: 'integrity',
      status: 'failed',
      details: { errors: errors.slice(0, ERRORS_MAX) },
    });
  });

const ERRORS_MAX = 100;

const noteRemoved = ({ db }: SetAsideParts, repositoryId: string, engineIds: readonly string[]) =>
  withSystem(db, 'note that snapshots cannot be read', (tx) =>
    BackupSnapshot.query(tx)
      .where('repository_id', repositoryId)
      .whereIn('engine_id', [...engineIds])
      .whereNull('removed_at')
      .patch({ removedAt: new Date(), removedBecause: 'unreadable' }),
  );
