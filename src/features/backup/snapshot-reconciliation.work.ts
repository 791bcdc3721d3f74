import {
  EngineError,
  exactPath,
  MACHINE_PATH,
  openDescriptions,
  openRepository,
  type ReadNames,
  type RepositoryReader,
} from '../../../engine/index.ts';
import { escapeLiteral } from '../../../protocol/index.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../../platform/db/transaction.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import { passwordsOf } from '../access/repository-passwords.ts';
import { storeSource } from '../store/records/store-source.ts';
import { BackupRepository } from '../repositories/repository.model.ts';
import { BackupSnapshot } from '../snapshots/snapshot.model.ts';
import { writtenInstant, writtenPaths } from '../snapshots/written-facts.ts';
import type { ObjectStorage } from '../store/storage/storage.ts';
import { markUnreadable, type UnknownSnapshot } from './presence.ts';

export interface FindingParts {
  db: Db;
  storage: ObjectStorage;
  secrets: Sealer;
}

type Description = Awaited<ReturnType<RepositoryReader['readSnapshot']>>;

/**
 * Records the snapshots of one repository that have no row. What cannot be read is left out and tried again later; the
 * others are recorded all the same.
 * @returns how many were recorded
 */
export async function recordFound(
  parts: FindingParts,
  repositoryId: string,
  unknown: readonly UnknownSnapshot[],
  signal: AbortSignal,
): Promise<number> {
  const { db } = parts;
  const repository = await withSystem(db, 'read a repository with unknown snapshots', (tx) =>
    BackupRepository.query(tx).findById(repositoryId),
  );
  if (repository === undefined) return 0;
  const unreadable: string[] = [];
  let recorded = 0;
  try {
    const reader = await openReader(parts, repository);
    for (const snapshot of unknown) {
      if (signal.aborted) break;
      const description = await described(reader, snapshot.name);
      if (description === undefined) unreadable.push(snapshot.name);
      else recorded += await record(db, repository, snapshot, description);
    }
  } catch (error) {
    if (!isDamage(error)) throw error;
    unreadable.push(...unknown.map(({ name }) => name));
  }
  if (unreadable.length > 0) {
    await withSystem(db, 'note which snapshots cannot be read', (tx) =>
      markUnreadable(tx, repositoryId, unreadable),
    );
  }
  return recorded;
}

async function openReader({ db, storage, secrets }: FindingParts, repository: BackupRepository) {
  const source = storeSource({ db, storage }, { repositoryId: repository.id, asOf: null });
  for (const access of await passwordsOf({ db, sealer: secrets }, repository)) {
    try {
      const descriptions = await openDescriptions(source, access);
      let opening: Promise<RepositoryReader> | undefined;
      return {
        async readSnapshot(snapshotId: string) {
          const description = await descriptions.readSnapshot(snapshotId);
          const readNames = async (path: string) => {
            opening ??= openRepository(source, access);
            const query = { snapshotId, path, offset: 0, limit: Infinity };
            return (await (await opening).listFolder(query)).entries.map(({ name }) => name);
          };
          const paths: string[] = [];
          for (const path of description.paths) paths.push(await exactSource(path, readNames));
          return { ...description, paths };
        },
      };
    } catch (error) {
      if (!(error instanceof EngineError) || error.code !== 'WRONG_KEY') throw error;
    }
  }
  throw new EngineError('WRONG_KEY');
}

/** restic keeps the paths of a snapshot as characters, and what is in it by the bytes of names. */
async function exactSource(path: string, readNames: ReadNames): Promise<string> {
  if (!path.startsWith('/')) return path;
  const printed = escapeLiteral(path);
  return exactPath(printed, readNames).catch((error: unknown) => {
    if (error instanceof EngineError) return printed;
    throw error;
  });
}

/** `undefined`: it is damaged, or was never one. */
const described = (
  reader: Pick<RepositoryReader, 'readSnapshot'>,
  name: string,
): Promise<Description | undefined> =>
  reader.readSnapshot(name).catch((error: unknown) => {
    if (isDamage(error)) return undefined;
    throw error;
  });

const isDamage = (error: unknown): boolean =>
  error instanceof EngineError &&
  ['REPOSITORY_DAMAGED', 'SNAPSHOT_MISSING', 'WRONG_KEY'].includes(error.code);

/** Nobody knows whether it is whole, so it is partial. It has no job, and so pushes nothing out (`findOutdated`). */
const record = (
  db: Db,
  { id: repositoryId, orgId, deviceId, configId }: BackupRepository,
  { name, arrivedAt, isByHand }: UnknownSnapshot,
  { original, paths, time }: Description,
): Promise<number> =>
  withSystem(db, 'record a snapshot that was found in a repository', async (tx) => {
    const hold = original !== undefined && isByHand ? await takeHold(tx, repositoryId, original) : {};
    const added = await BackupSnapshot.query(tx)
      .insert({
        orgId,
        deviceId,
        configId,
        repositoryId,
        engineId: name,
        receivedAt: arrivedAt,
        takenAt: writtenInstant(time),
        paths: writtenPaths(paths),
        backupType: paths.length === 1 && paths[0] === MACHINE_PATH ? 'system_image' : 'file',
        isPartial: true,
        ...hold,
      })
      .onConflict(['repository_id', 'engine_id'])
      .ignore()
      .returning('id')
      .castTo<unknown>();
    return added === undefined || (Array.isArray(added) && added.length === 0) ? 0 : 1;
  });

/** `restic tag` writes a snapshot anew, under another id, and removes the one that it was: a hold goes with it. */
async function takeHold(tx: Tx, repositoryId: string, engineId: string): Promise<Partial<BackupSnapshot>> {
  const original = await BackupSnapshot.query(tx)
    .findOne({ repository_id: repositoryId, engine_id: engineId })
    .whereNotNull('removed_at')
    .forUpdate();
  if (original === undefined) return {};
  const { legalHold, legalHoldReason, immutableUntil } = original;
  await original.$query(tx).patch({ legalHold: false, legalHoldReason: null, immutableUntil: null });
  return { legalHold, legalHoldReason, immutableUntil };
}
