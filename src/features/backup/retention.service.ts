import { clock } from '../../../clock.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../../platform/db/transaction.ts';
import { standingAlert } from '../../alerts/index.ts';
import { BackupConfig } from '../configs/config.model.ts';
import { mayGo } from '../core/retention.ts';
import { seriesOf } from '../core/series.ts';
import { BackupRepository } from '../repositories/repository.model.ts';
import { BackupSnapshot } from '../snapshots/snapshot.model.ts';
import { chainSnapshots } from '../databases/chain-state.ts';
import { withWhatTheyNeed } from '../databases/chains.ts';
import { EMPTY, SIZE_DROP } from '../core/alert-kinds.ts';
import { copiesToKeep } from '../vaults/vault-retention.ts';

/** A snapshot that retention does not keep any more. */
export type Outdated = Pick<BackupSnapshot, 'id' | 'engineId'>;

/**
 * The snapshots of a repository that may go now. Where the configuration is gone, or an alert is open that files are
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

/** Those of these snapshots that nothing may remove: by a hold or the policy, their own or of one that needs them. */
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

/** What a prune of the repository has to remove, with what an earlier run did not come to; `undefined`: none is due. */
export const findDuePrune = (db: Db, repositoryId: string): Promise<Outdated[] | undefined> =>
  withSystem(db, 'read which snapshots of a repository have to go', async (tx) => {
    const repository = await BackupRepository.query(tx).findById(repositoryId);
    if (repository?.pruneDueSince == null) return undefined;
    return BackupSnapshot.query(tx)
      .where('repository_id', repositoryId)
      .where('removed_at', '>=', repository.pruneDueSince);
  });

const DAY_MS = 86_400_000;

const immutableByPolicy = (receivedAt: Date, days: number | undefined): Date | null =>
  days === undefined ? null : new Date(receivedAt.getTime() + days * DAY_MS);

function latest(one: Date | null, other: Date | null): Date | null {
  if (one === null || other === null) return one ?? other;
  return one > other ? one : other;
}

async function timeZoneOf(tx: Tx, deviceId: string): Promise<string> {
  const { rows } = await tx.raw<{ rows: { timezone: string }[] }>(
    'select s.timezone from devices d join sites s on s.id = d.site_id where d.id = ?',
    [deviceId],
  );
  return rows[0]?.timezone ?? 'UTC';
}
