import { clock, DAY_MS } from '../../clock.ts';
import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import type { SnapshotDetails } from '../../protocol/index.ts';
import { standingAlert } from '../alerts/index.ts';
import {
  BackupRepository,
  type ObjectName,
  type ObjectStorage,
  storeSource,
  trashObject,
} from '../backup-store/index.ts';
import { EMPTY, SIZE_DROP } from './alerts.ts';
import { timeZoneOf } from './snapshot.queries.ts';
import { BackupConfig } from './config.model.ts';
import { chainSnapshots } from './database-chain-state.ts';
import { withWhatTheyNeed } from './database-chains.ts';
import { mayGo } from './retention.ts';
import { BackupSnapshot } from './snapshot.model.ts';
import { copiesToKeep } from './vault.queries.ts';
import {
  type Engine,
  EngineError,
  findCorruptPacks,
  findIncompleteSnapshots,
  findUnreadableSnapshots,
  rebuildIndex,
  type Repository,
} from '../../engine/index.ts';
import type { Logger } from '../../platform/logger.ts';
import { recordWork } from '../work/index.ts';
import { VerificationFacts } from './protection.model.ts';
import { VERIFICATION } from './verification.service.ts';
import type { RepositoryAccessParts } from './repository-access.ts';

/** The content of a snapshot, for the retention; `undefined` if all snapshots of its repository hold the same. */
const seriesOf = (details: SnapshotDetails | null): string[] | undefined =>
  details?.kind === 'machines' ? details.machines.map(({ id }) => id) : undefined;

/** A snapshot that retention does not keep any more. */
export type Outdated = Pick<BackupSnapshot, 'id' | 'engineId'>;

/**
 * The snapshots of a repository that may go now. If the configuration is gone, or an alert is open that files are
 * missing or have changed as after an attack, nothing may.
 */
export async function findOutdated(db: Db, repositoryId: string): Promise<Outdated[]> {
  return withSystem(db, 'decide which snapshots of a repository are kept', async (tx) => {
    const repository = await BackupRepository.query(tx).findById(repositoryId);
    if (repository === undefined) return [];
    if (repository.isVault) return findOutdatedCopies(tx, repository);
    if (repository.configId === null) return [];
    const config = await BackupConfig.query(tx).findById(repository.configId);
    if (config === undefined) return [];
    const snapshots = await BackupSnapshot.query(tx)
      .where('repository_id', repositoryId)
      .whereNull('removed_at');
    const outdated = mayGo(
      snapshots.map(({ id, jobId, receivedAt, legalHold, inUse, immutableUntil, details }) => ({
        id,
        isFound: jobId === null,
        receivedAt,
        hasLegalHold: legalHold || inUse,
        series: seriesOf(details),
        immutableUntil: latest(immutableUntil, immutableByPolicy(receivedAt, config.retention.immutableDays)),
      })),
      config.retention,
      {
        now: clock.date(),
        timeZone: config.schedule?.timezone ?? (await timeZoneOf(tx, repository.deviceId)),
        isFrozen: await isFrozen(tx, repository.deviceId),
      },
    );
    return withoutNeeded(snapshots, outdated);
  });
}

const isFrozen = async (tx: Tx, deviceId: string): Promise<boolean> =>
  (await standingAlert(tx, { deviceId, kind: SIZE_DROP })) ||
  (await standingAlert(tx, { deviceId, kind: EMPTY }));

/** A vault keeps the newest copies, and for as long the others that a repository keeps in any case. */
async function findOutdatedCopies(tx: Tx, { id, deviceId }: BackupRepository): Promise<Outdated[]> {
  const found = await copiesToKeep(tx, id);
  if (found === undefined) return [];
  const { copies, retentionCount: keepLast } = found;
  const situation = {
    now: clock.date(),
    timeZone: 'UTC',
    isFrozen: await isFrozen(tx, deviceId),
  };
  const held = copies.map((copy) => ({ ...copy, series: seriesOf(copy.details) }));
  const outdated = mayGo(held, { keepLast }, situation);
  const snapshots = await BackupSnapshot.query(tx).where('repository_id', id).whereNull('removed_at');
  return withoutNeeded(snapshots, outdated);
}

/** A snapshot of a database stays for as long as one stays that needs it. */
function withoutNeeded(snapshots: readonly BackupSnapshot[], outdated: ReadonlySet<string>): Outdated[] {
  const kept = new Set(snapshots.filter(({ id }) => !outdated.has(id)).map(({ id }) => id));
  const needed = withWhatTheyNeed(kept, chainSnapshots(snapshots));
  return snapshots.filter(({ id }) => outdated.has(id) && !needed.has(id));
}

/**
 * Takes the snapshots out of the index, and notes that their data has to be pruned. A hold that a person has set since
 * the decision wins, and so does a machine that was started from one; both keep what the held snapshot needs as well.
 * @returns how many go
 */
export async function markRemoved(
  db: Db,
  repositoryId: string,
  outdated: readonly Outdated[],
): Promise<number> {
  if (outdated.length === 0) return 0;
  return withSystem(db, 'remove snapshots that retention does not keep', async (tx) => {
    // A hold locks the snapshot that it is put on: it comes before this, or finds the snapshot removed.
    const snapshots = await BackupSnapshot.query(tx)
      .where('repository_id', repositoryId)
      .whereNull('removed_at')
      .orderBy('id')
      .forNoKeyUpdate();
    const decided = new Set(outdated.map(({ id }) => id));
    const now = clock.date();
    const going = withoutNeeded(
      snapshots,
      new Set(snapshots.filter((each) => decided.has(each.id) && !isHeld(each, now)).map(({ id }) => id)),
    );
    const removed = await BackupSnapshot.query(tx)
      .whereIn(
        'id',
        going.map(({ id }) => id),
      )
      .patch({ removedAt: now, removedBecause: 'retention' });
    if (removed > 0) {
      await BackupRepository.query(tx)
        .findById(repositoryId)
        .whereNull('prune_due_since')
        .patch({ pruneDueSince: now });
    }
    return removed;
  });
}

/**
 * Returns the snapshots that must not be removed, because a hold or the policy protects them or one that needs them.
 */
export async function findProtected(
  db: Db,
  repositoryId: string,
  engineIds: readonly string[],
): Promise<string[]> {
  if (engineIds.length === 0) return [];
  return withSystem(db, 'whether snapshots may be removed', async (tx) => {
    const repository = await BackupRepository.query(tx).findById(repositoryId).throwIfNotFound();
    const config =
      repository.configId === null ? undefined : await BackupConfig.query(tx).findById(repository.configId);
    const snapshots = await BackupSnapshot.query(tx)
      .where('repository_id', repositoryId)
      .whereNull('removed_at');
    const now = clock.date();
    const held = snapshots.filter((each) => isHeld(each, now, config?.retention.immutableDays));
    const kept = withWhatTheyNeed(new Set(held.map(({ id }) => id)), chainSnapshots(snapshots));
    const asked = new Set(engineIds);
    return snapshots
      .filter(({ id, engineId }) => asked.has(engineId) && kept.has(id))
      .map(({ engineId }) => engineId);
  });
}

/** @param immutableDays  of the policy of its configuration */
function isHeld(
  {
    legalHold,
    inUse,
    immutableUntil,
    receivedAt,
  }: Pick<BackupSnapshot, 'legalHold' | 'inUse' | 'immutableUntil' | 'receivedAt'>,
  now: Date,
  immutableDays?: number,
): boolean {
  const until = latest(immutableUntil, immutableByPolicy(receivedAt, immutableDays));
  return legalHold || inUse || (until !== null && until > now);
}

/**
 * The snapshots that a prune of the repository has to remove, with the rest of an earlier run; `undefined`: none is
 * due.
 */
export const findDuePrune = (db: Db, repositoryId: string): Promise<Outdated[] | undefined> =>
  withSystem(db, 'read which snapshots of a repository have to go', async (tx) => {
    const repository = await BackupRepository.query(tx).findById(repositoryId);
    if (repository?.pruneDueSince == null) return undefined;
    return BackupSnapshot.query(tx)
      .where('repository_id', repositoryId)
      .where('removed_at', '>=', repository.pruneDueSince);
  });

const immutableByPolicy = (receivedAt: Date, days: number | undefined): Date | null =>
  days === undefined ? null : new Date(receivedAt.getTime() + days * DAY_MS);

function latest(one: Date | null, other: Date | null): Date | null {
  if (one === null || other === null) return one ?? other;
  return one > other ? one : other;
}

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
  const packs = await findCorruptPacks(source, query, { signal });
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
 * REPOSITORY_DAMAGED if the store itself has lost something, because the snapshots that miss it are real ones, and
 * if such a snapshot is on hold or immutable. It runs when a prune has failed, because every folder is read.
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
  await withSystem(db, 'note that a device has written false objects', async (tx) => {
    const { orgId, deviceId, configId } = await BackupRepository.query(tx)
      .findById(repositoryId)
      .throwIfNotFound();
    const id = await recordWork(tx, VERIFICATION, {}, { status: 'failed' }, { orgId, deviceId });
    await VerificationFacts.query(tx).insert({
      id,
      orgId,
      configId,
      repositoryId,
      verificationType: 'integrity',
      details: {
        errors: errors.slice(0, ERRORS_MAX),
        ...(errors.length > ERRORS_MAX ? { errorsAreCut: true } : {}),
      },
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
