import { clock } from '../../../clock.ts';
import {
  type Engine,
  EngineError,
  findFalsePacks,
  findIncompleteSnapshots,
  findUnreadableSnapshots,
  rebuildIndex,
  type Repository,
} from '../../../engine/index.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import type { Logger } from '../../../platform/logger.ts';
import type { RepositoryAccessParts } from '../access/open-repository.ts';
import { storeSource } from '../store/records/store-source.ts';
import { BackupRepository } from '../repositories/repository.model.ts';
import { BackupSnapshot } from '../snapshots/snapshot.model.ts';
import { findProtected } from './retention.service.ts';
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
 */
export async function setAsideFalsehoods(
  parts: SetAsideParts,
  { repositoryId, engine, repository }: Opened,
  { signal }: { signal: AbortSignal },
): Promise<void> {
  const { source, query } = opened(parts, { repositoryId, repository });
  const snapshots = await findUnreadableSnapshots(source, query, { signal });
  await setAside(parts, repositoryId, snapshotNames(snapshots));
  if (snapshots.length > 0) await noteRemoved(parts, repositoryId, snapshots, 'unreadable');
  await rebuildIndex(engine, repository, { readAllPacks: true }, { signal });
  const packs = await findFalsePacks(source, query, { signal });
  await setAside(
    parts,
    repositoryId,
    packs.map((name) => ({ type: 'data', name })),
  );
  if (packs.length > 0) await rebuildIndex(engine, repository, { readAllPacks: true }, { signal });
  await noteFound(parts, repositoryId, [
    ...snapshots.map((name) => `Snapshot ${name} cannot be read. It was moved to the trash.`),
    ...packs.map((name) => `Pack ${name} does not hold what it says. It was moved to the trash.`),
  ]);
}

/**
 * Moves snapshots to the trash that need data which has never arrived: restic refuses to prune beside them. Throws
 * REPOSITORY_DAMAGED where the store itself has lost something, because the snapshots that miss it are real ones, and
 * where such a snapshot is on hold or immutable. It is done where a prune has failed, because every folder is read.
 * @returns how many there were
 */
export async function setAsideIncomplete(
  parts: SetAsideParts,
  { repositoryId, repository }: Omit<Opened, 'engine'>,
  { signal }: { signal: AbortSignal },
): Promise<number> {
  const { db } = parts;
  const { source, query } = opened(parts, { repositoryId, repository });
  await withSystem(db, 'whether the store has lost data of a repository', async (tx) => {
    const lost = await tx('backup_objects')
      .where({ repository_id: repositoryId, type: 'data' })
      .whereNull('trashed_at')
      .whereNotNull('lost_at')
      .first<{ name: string } | undefined>('name');
    if (lost !== undefined) throw refused(`The pack ${lost.name} is missing in the store.`);
  });
  const snapshots = await findIncompleteSnapshots(source, query, { signal });
  const held = await findProtected(db, repositoryId, snapshots);
  if (held.length > 0) {
    throw refused(`The snapshot ${held.join(', ')} is incomplete, and may not be removed.`);
  }
  await setAside(parts, repositoryId, snapshotNames(snapshots));
  if (snapshots.length > 0) await noteRemoved(parts, repositoryId, snapshots, 'incomplete');
  await noteFound(
    parts,
    repositoryId,
    snapshots.map((name) => `Snapshot ${name} needs data that has never arrived. It was moved to the trash.`),
  );
  return snapshots.length;
}

const refused = (detail: string) => new EngineError('REPOSITORY_DAMAGED', { detail });

function opened(
  { db, storage }: SetAsideParts,
  { repositoryId, repository }: Pick<Opened, 'repositoryId' | 'repository'>,
) {
  const { password, keyHint } = repository;
  return { source: storeSource({ db, storage }, { repositoryId, asOf: null }), query: { password, keyHint } };
}

const snapshotNames = (names: readonly string[]) =>
  names.map((name): ObjectName => ({ type: 'snapshots', name }));

async function setAside(
  { db, storage, log }: SetAsideParts,
  repositoryId: string,
  objects: readonly ObjectName[],
): Promise<void> {
  for (const object of objects) {
    const trashedAt = await trashObject(db, repositoryId, object);
    if (trashedAt !== undefined) await storage.setAside(repositoryId, object, trashedAt);
    log.error({ repositoryId, ...object }, 'backup.falsehood_set_aside');
  }
}

/** As a verification that has found errors: so it lowers the readiness, and an alert follows. */
async function noteFound(
  { db }: SetAsideParts,
  repositoryId: string,
  errors: readonly string[],
): Promise<void> {
  if (errors.length === 0) return;
  await withSystem(db, 'note that a device has written falsehoods', async (tx) => {
    const { orgId, deviceId, configId } = await BackupRepository.query(tx)
      .findById(repositoryId)
      .throwIfNotFound();
    const at = clock.date();
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
}

const ERRORS_MAX = 100;

const noteRemoved = (
  { db }: SetAsideParts,
  repositoryId: string,
  engineIds: readonly string[],
  removedBecause: 'unreadable' | 'incomplete',
) =>
  withSystem(db, 'note that snapshots cannot be read', (tx) =>
    BackupSnapshot.query(tx)
      .where('repository_id', repositoryId)
      .whereIn('engine_id', [...engineIds])
      .whereNull('removed_at')
      .patch({ removedAt: clock.date(), removedBecause }),
  );
