import { z } from 'zod';
import {
  EngineError,
  exactPath,
  MACHINE_PATH,
  openDescriptions,
  openRepository,
  type ReadNames,
  type RepositoryReader,
} from '../../engine/index.ts';
import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import { defineJob } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { escapeLiteral } from '../../protocol/index.ts';
import { BackupRepository, type ObjectStorage, storeSource, markUnreadable } from '../backup-store/index.ts';
import { passwordsOf } from './repository-access.ts';
import { BackupSnapshot, writtenInstant, writtenPaths } from './snapshot.model.ts';
import {
  findUnknown,
  holdTrashOfHeld,
  judgeable,
  markGone,
  type UnknownSnapshot,
  unmarkReturned,
} from './snapshot.queries.ts';

/**
 * Makes the rows of snapshots follow the repositories of the store, which change without Muster if restic is run by hand,
 * or if the folder of the store is restored. Only what the store recorded counts, and when; the times that a device writes
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
    const unknown = await withSystem(parts.db, 'find snapshots without a record', (tx) =>
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

// Snapshots that have no row.

interface FindingParts {
  db: Db;
  storage: ObjectStorage;
  secrets: Encryptor;
}

type Description = Awaited<ReturnType<RepositoryReader['readSnapshot']>>;

/**
 * Records the snapshots of one repository that have no row. What cannot be read is left out and tried again later; the
 * others are recorded all the same.
 * @returns how many were recorded
 */
async function recordFound(
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
  for (const access of await passwordsOf({ db, encryptor: secrets }, repository)) {
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

/**
 * Records a snapshot that was found. Whether it is whole is not known, so it counts as partial. It has no job, and so
 * pushes nothing out (`findOutdated`).
 */
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
