import { z } from 'zod';
import { clock, DAY_MS, HOUR_MS } from '../../clock.ts';
import { EngineError, listSnapshots } from '../../engine/index.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import { type CommandOutput, COMMANDS } from '../../protocol/index.ts';
import { type BackupRepository, endCredentialsOfJob, recordDestinationSpace } from '../backup-store/index.ts';
import type { EndedCommand } from '../commands/index.ts';
import {
  defineWork,
  endOfCommand,
  type StepOutcome,
  type WorkEnd,
  type WorkEngine,
  type WorkItem,
  type WorkRun,
} from '../work/index.ts';
import { type RepositoryAccessParts, withRepository } from './repository-access.ts';
import { BackupSnapshot } from './snapshot.model.ts';
import { type BackupVault, VaultSync, VaultSyncFacts } from './vault.model.ts';
import { vaultsAfterBackup, vaultsToFollow, type VaultToSync } from './vault.queries.ts';

/** Copies snapshots of a device's repository to its vault: given to the device, and recorded when that has ended. */
export const VAULT_SYNC = defineWork({
  kind: 'vault_sync',
  input: z.object({}),
  steps: ['begin', 'record'],
  limits: { inProcess: 3 },
  attempts: 10,
  deadlineMs: 7 * DAY_MS,
  runsOnServer: false,
  commands: ['backup.vault-sync'],
  // The copies stay for as long as they are kept; a sync can follow each backup.
  keptDays: 100,
});

/** @returns the id of the sync; `undefined` if one of the vault is in flight */
export async function addSync(
  tx: Tx,
  work: WorkEngine,
  { id: vaultId, orgId, deviceId }: VaultToSync,
  given: { reason: VaultSync['reason']; snapshotId?: string | undefined; createdBy?: string | null },
): Promise<string | undefined> {
  const { reason, snapshotId = null, createdBy = null } = given;
  const id = await work.enqueue(
    tx,
    VAULT_SYNC,
    {},
    { orgId, deviceId, createdBy, isUrgent: reason === 'manual', exclusiveKey: vaultId },
  );
  if (id !== undefined) await VaultSyncFacts.query(tx).insert({ id, orgId, vaultId, reason, snapshotId });
  return id;
}

/** A vault whose sync is in flight gets another one with the end of that. */
export async function addSyncsAfterBackup(tx: Tx, work: WorkEngine, repositoryId: string): Promise<void> {
  for (const vault of await vaultsAfterBackup(tx, repositoryId)) {
    await addSync(tx, work, vault, { reason: 'backup' });
  }
}

// The end of a sync: from the result of its command and from what the vault contains.

const Output = COMMANDS['backup.vault-sync'].output;
const LateResult = z.object({ status: z.literal('succeeded'), output: Output });

const TIMED_OUT = {
  code: 'TIMED_OUT',
  message: 'The device has not reported the result of the sync in time.',
};
const UNKNOWN = { code: 'UNKNOWN', message: 'The device has not said why the sync failed.' };

interface Ended {
  sync: VaultSync;
  source: BackupRepository;
  target: BackupRepository;
  command: EndedCommand;
  output: CommandOutput<'backup.vault-sync'> | undefined;
}

/** A sync whose command was never sent waits for its device again. */
export async function recordSync(parts: RepositoryAccessParts, run: WorkRun): Promise<StepOutcome> {
  const ended = await readEnd(parts, run);
  if (ended === undefined) return VAULT_DELETED;
  if (ended.command.status === 'expired' && ended.output === undefined) {
    await withSystem(parts.db, 'end the credentials of a vault sync that was not sent', (tx) =>
      endCredentialsOfJob(tx, run.id),
    );
    return { restart: true };
  }
  return { end: await judge(parts, ended, run.signal) };
}

/** A device can report its copies after the time limit of the command. */
export async function recordLateSync(
  parts: RepositoryAccessParts,
  run: WorkRun,
): Promise<{ end: WorkEnd } | undefined> {
  const ended = await readEnd(parts, run);
  if (ended?.output === undefined) return undefined;
  return { end: await judge(parts, ended, run.signal) };
}

export const VAULT_DELETED: StepOutcome = { end: { status: 'cancelled' } };

/** `undefined`: the vault was deleted while the device copied. */
async function readEnd({ db }: RepositoryAccessParts, run: WorkRun): Promise<Ended | undefined> {
  return withSystem(db, 'read the end of a vault sync', async (tx) => {
    const sync = await VaultSync.query(tx).findById(run.id).withGraphFetched('vault.[source, copy]');
    const { source, copy: target } = sync?.vault ?? {};
    if (sync === undefined || source == null || target == null) return undefined;
    const command = await endOfCommand(tx, run);
    const output =
      command.status === 'succeeded'
        ? Output.parse(command.output)
        : LateResult.safeParse(command.lateResult).data?.output;
    return { sync, source, target, command, output };
  });
}

async function judge(parts: RepositoryAccessParts, ended: Ended, signal: AbortSignal): Promise<WorkEnd> {
  const { sync, source, command, output } = ended;
  const seen = await seenIn(parts, ended, signal);
  if (seen instanceof EngineError) {
    return { status: 'failed', code: `SERVER_${seen.code}`, message: `On the server: ${seen.message}` };
  }
  if (output === undefined) {
    const { code, message } = command.error ?? (command.status === 'timed_out' ? TIMED_OUT : UNKNOWN);
    const result: SyncResult = { seen, ...(code === 'DESTINATION_FULL' ? { room: { freeBytes: 0 } } : {}) };
    if (command.status === 'cancelled') return { status: 'cancelled', result };
    return { status: 'failed', code, message, result };
  }
  const result: SyncResult = { seen, room: output.destinationRoom ?? null };
  const missing = await countMissing(parts, { sync, source }, seen);
  if (missing === 0) return { status: 'completed', result };
  const message = `${missing} of ${sync.wanted.length} snapshots are not in the vault after the sync.`;
  return { status: 'failed', code: 'SNAPSHOT_MISSING', message, result };
}

async function countMissing(
  { db }: RepositoryAccessParts,
  { sync: { wanted }, source }: Pick<Ended, 'sync' | 'source'>,
  { copies }: SeenCopies,
): Promise<number> {
  const copied = new Set(copies.map((copy) => copy.source));
  const known = await withSystem(db, 'look which snapshots of a vault are known', (tx) =>
    idsOf(
      tx,
      source.id,
      wanted.filter((id) => copied.has(id)),
    ),
  );
  return wanted.length - known.size;
}

/**
 * The snapshots in the vault. In the backup store the server looks for itself, whatever the device says: a copy has to
 * be there, and to have the tree of the snapshot that it is a copy of. Elsewhere only the device sees it, so its word
 * counts.
 */
async function seenIn(
  parts: RepositoryAccessParts,
  { sync, source, target, output }: Ended,
  signal: AbortSignal,
): Promise<SeenCopies | EngineError> {
  if (target.provider !== 'server') {
    const wanted = new Set(sync.wanted);
    const copies = (output?.copies ?? []).filter((copy) => wanted.has(copy.source));
    return { copies, covers: output === undefined ? [] : sync.wanted };
  }
  const list = (repositoryId: string) =>
    withRepository(parts, { repositoryId, role: 'reader' }, (engine, repository) =>
      listSnapshots(engine, repository, { signal }),
    );
  try {
    const listed = await list(target.id);
    const trees =
      source.provider === 'server'
        ? new Map((await list(source.id)).map(({ id, tree }) => [id, tree]))
        : undefined;
    const copies = listed.flatMap(({ id, original, tree }) =>
      original !== undefined && (trees === undefined || trees.get(original) === tree)
        ? [{ source: original, copy: id }]
        : [],
    );
    return { copies, covers: 'all', present: listed.map(({ id }) => id) };
  } catch (error) {
    if (error instanceof EngineError && !signal.aborted) return error;
    throw error;
  }
}

/** The findings in a vault. The ids are those of the engine. */
const SeenCopies = z.object({
  copies: z.array(z.object({ source: z.string(), copy: z.string() })),
  /** The snapshots about which this says everything: one of them that is not among the copies has none. */
  covers: z.union([z.literal('all'), z.array(z.string())]),
  /** Every snapshot of the vault, if that is known. */
  present: z.array(z.string()).optional(),
});
type SeenCopies = z.infer<typeof SeenCopies>;

/** Of a sync that has come to its device. */
const SyncResult = z.object({
  seen: SeenCopies,
  /** Null: the device has not said how much room the destination has. Left out: it could not say anything. */
  room: z.object({ freeBytes: z.number(), totalBytes: z.number().optional() }).nullable().optional(),
});
type SyncResult = z.infer<typeof SyncResult>;

/** The device can neither read the repository nor write to the vault any more. */
export async function settleSync(
  tx: Tx,
  work: WorkEngine,
  { id }: WorkItem,
  { status, result }: WorkEnd,
): Promise<void> {
  await endCredentialsOfJob(tx, id);
  const sync = await VaultSync.query(tx).findById(id).withGraphFetched('vault.[source, copy]');
  const { vault } = sync ?? {};
  if (sync === undefined || vault?.source == null || vault.copy == null) return;
  if (result !== undefined) {
    const { seen, room } = SyncResult.parse(result);
    const copiedSnapshots = await recordCopies(tx, { source: vault.source, target: vault.copy }, seen);
    if (room !== undefined) await recordDestinationSpace(tx, vault.copy.id, room ?? undefined);
    await VaultSyncFacts.query(tx).findById(id).patch({ copiedSnapshots });
  }
  if (status === 'failed') await tryAgainLater(tx, vault);
  // A backup that has ended meanwhile found this sync in flight.
  if (status === 'completed') {
    for (const next of await vaultsToFollow(tx, sync)) await addSync(tx, work, next, { reason: 'backup' });
  }
}

/** A vault that is synced by itself is tried again: after one hour, then two, and at last every day. */
async function tryAgainLater(tx: Tx, vault: BackupVault): Promise<void> {
  if (!vault.syncAfterBackup && vault.schedule === null) return;
  const failures = await failuresInARow(tx, vault.id);
  const again = new Date(clock.now() + Math.min(24, 2 ** (failures - 1)) * HOUR_MS);
  if (vault.nextSyncAt !== null && vault.nextSyncAt < again) return;
  await vault.$query(tx).patch({ nextSyncAt: again });
}

async function failuresInARow(tx: Tx, vaultId: string): Promise<number> {
  const newest = await VaultSync.query(tx)
    .select('status')
    .where('vault_id', vaultId)
    .whereNotNull('finished_at')
    .orderBy('id', 'desc')
    .limit(10);
  const success = newest.findIndex(({ status }) => status === 'completed');
  return Math.max(1, success === -1 ? newest.length : success);
}

/**
 * Makes the snapshots of a vault those that were found there.
 * @returns how many are new
 */
async function recordCopies(
  tx: Tx,
  { source, target }: { source: BackupRepository; target: BackupRepository },
  { copies, covers, present }: SeenCopies,
): Promise<number> {
  const originals = await BackupSnapshot.query(tx)
    .where('repository_id', source.id)
    .whereIn(
      'engine_id',
      copies.map((copy) => copy.source),
    );
  const known = new Map(
    (await BackupSnapshot.query(tx).where('repository_id', target.id)).map((row) => [row.engineId, row]),
  );
  let added = 0;
  for (const original of originals) {
    const copy = copies.find((one) => one.source === original.engineId)?.copy ?? '';
    const row = known.get(copy);
    if (row !== undefined && row.removedAt === null) continue;
    added += 1;
    if (row === undefined) await insertCopy(tx, original, { target, engineId: copy });
    // It was to be removed, and is still there.
    else await row.$query(tx).patch({ removedAt: null, removedBecause: null });
  }
  const there = new Set(present ?? copies.map(({ copy }) => copy));
  const about = covers === 'all' ? undefined : await idsOf(tx, source.id, covers);
  const gone = [...known.values()].filter(
    ({ engineId, copyOf, removedAt }) =>
      removedAt === null && !there.has(engineId) && (about === undefined || about.has(copyOf ?? '')),
  );
  await BackupSnapshot.query(tx)
    .whereIn(
      'id',
      gone.map(({ id }) => id),
    )
    .patch({ removedAt: clock.date(), removedBecause: 'missing' });
  return added;
}

async function idsOf(
  tx: Tx,
  repositoryId: string,
  engineIds: readonly string[],
): Promise<ReadonlySet<string>> {
  const rows = await BackupSnapshot.query(tx)
    .select('id')
    .where('repository_id', repositoryId)
    .whereIn('engine_id', [...engineIds]);
  return new Set(rows.map(({ id }) => id));
}

/** `receivedAt` is when the copy was found, because the vault had it later than the first repository. */
async function insertCopy(
  tx: Tx,
  original: BackupSnapshot,
  { target, engineId }: { target: BackupRepository; engineId: string },
): Promise<void> {
  const { backupType, takenAt, sizeBytes, fileCount, paths, isPartial, details } = original;
  await BackupSnapshot.query(tx).insert({
    orgId: target.orgId,
    deviceId: target.deviceId,
    configId: null,
    repositoryId: target.id,
    copyOf: original.id,
    engineId,
    receivedAt: clock.date(),
    backupType,
    takenAt,
    sizeBytes,
    fileCount,
    paths,
    isPartial,
    details,
  });
}
