import { z } from 'zod';
import { clock } from '../../clock.ts';
import { EngineError, listSnapshots } from '../../engine/index.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import { defineJob } from '../../platform/jobs/definition.ts';
import { type CommandOutput, COMMANDS, shortened } from '../../protocol/index.ts';
import { BackupRepository, endCredential, recordDestinationSpace } from '../backup-store/index.ts';
import { type EndedCommand, findEndOfCommand } from '../commands/index.ts';
import { type RepositoryAccessParts, withRepository } from './repository-access.ts';
import { BackupSnapshot } from './snapshot.model.ts';
import { BackupVault, VaultSync } from './vault.model.ts';
import { addFollowingSync } from './vault.queries.ts';

/** Adds the syncs that are due, and gives those whose turn has come to their devices. */
export const HAND_OVER_VAULTS = defineJob({
  name: 'backup.hand-over-vaults',
  input: z.object({}),
  attempts: 3,
  inCluster: 1,
});

/** Makes the repository of a vault in the backup store. */
export const PREPARE_VAULT = defineJob({
  name: 'backup.prepare-vault',
  input: z.object({ syncId: z.uuid() }),
  attempts: 4,
  concurrency: 2,
});

/** Added by a trigger of the database with the end of a command. */
export const SETTLE_VAULT_SYNC = defineJob({
  name: 'backup.settle-vault-sync',
  input: z.object({ syncId: z.uuid(), commandId: z.uuid() }),
  attempts: 20,
  concurrency: 2,
});

const MESSAGE_MAX = 2000;

/** The device can neither read the repository nor write to the vault any more. */
async function endAccess(tx: Tx, sync: VaultSync): Promise<void> {
  for (const id of [sync.sourceCredentialId, sync.vaultCredentialId]) {
    if (id !== null) await endCredential(tx, id);
  }
}

export async function cancelSyncNow(tx: Tx, sync: VaultSync): Promise<void> {
  await endAccess(tx, sync);
  const at = clock.date();
  await sync
    .$query(tx)
    .patch({ status: 'cancelled', cancelRequestedAt: sync.cancelRequestedAt ?? at, finishedAt: at });
}

/** A vault that is synced by itself is tried again: after one hour, then two, and at last every day. */
export async function failSync(
  tx: Tx,
  sync: VaultSync,
  { code, message, copied = null }: { code: string; message: string; copied?: number | null },
): Promise<void> {
  await endAccess(tx, sync);
  await sync.$query(tx).patch({
    status: 'failed',
    copiedSnapshots: copied,
    errorCode: code.slice(0, 64),
    errorMessage: shortened(message, MESSAGE_MAX),
    finishedAt: sync.finishedAt ?? clock.date(),
  });
  const [vault, failures] = [
    await BackupVault.query(tx).findById(sync.vaultId),
    await failuresInARow(tx, sync.vaultId),
  ];
  if (vault === undefined || !(vault.syncAfterBackup || vault.schedule !== null)) return;
  const again = new Date(clock.now() + Math.min(24, 2 ** (failures - 1)) * 3_600_000);
  if (vault.nextSyncAt !== null && vault.nextSyncAt < again) return;
  await vault.$query(tx).patch({ nextSyncAt: again });
}

async function failuresInARow(tx: Tx, vaultId: string): Promise<number> {
  const newest = await VaultSync.query(tx)
    .select('status')
    .where('vault_id', vaultId)
    .whereNotNull('finished_at')
    .orderBy('created_at', 'desc')
    .limit(10);
  const success = newest.findIndex(({ status }) => status === 'completed');
  return Math.max(1, success === -1 ? newest.length : success);
}

// The end of a sync: from the result of its command and from what the vault contains.

const Output = COMMANDS['backup.vault-sync'].output;
const LateResult = z.object({ status: z.literal('succeeded'), output: Output });

/** Sentences for commands that have ended without a word of the device. */
const SILENT_ENDS: Readonly<Record<string, { code: string; message: string }>> = {
  timed_out: { code: 'TIMED_OUT', message: 'The device has not reported the result of the sync in time.' },
  expired: { code: 'NOT_SENT', message: 'The device was not connected when the sync was to be sent.' },
};
const UNKNOWN = { code: 'UNKNOWN', message: 'The device has not said why the sync failed.' };

interface Ended {
  sync: VaultSync;
  vault: BackupVault;
  source: BackupRepository;
  target: BackupRepository;
  command: EndedCommand;
  output: CommandOutput<'backup.vault-sync'> | undefined;
}

/** Can be repeated. `waits_again`: the device never got the sync, which now waits for it again. */
export async function settleSync(
  parts: RepositoryAccessParts,
  ids: { syncId: string; commandId: string },
  signal: AbortSignal,
): Promise<'open' | 'waits_again' | 'ended' | 'nothing'> {
  const { db } = parts;
  const ended = await withSystem(db, 'read the end of a vault sync', (tx) => readEnd(tx, ids));
  if (ended === 'open' || ended === 'nothing') return ended;
  const { sync, command, output } = ended;
  if (command.status === 'expired' && output === undefined && sync.cancelRequestedAt === null) {
    await withSystem(db, 'let a vault sync wait for its device again', async (tx) => {
      await endAccess(tx, sync);
      await sync.$query(tx).patch({
        status: 'pending',
        commandId: null,
        sourceCredentialId: null,
        vaultCredentialId: null,
        startedAt: null,
      });
    });
    return 'waits_again';
  }
  const seen = await seenIn(parts, ended, signal);
  await withSystem(db, 'end a vault sync with its command', (tx) => end(tx, ended, seen));
  return 'ended';
}

async function readEnd(
  tx: Tx,
  { syncId, commandId }: { syncId: string; commandId: string },
): Promise<Ended | 'open' | 'nothing'> {
  const sync = await VaultSync.query(tx).findById(syncId).where('command_id', commandId);
  if (sync === undefined) return 'nothing';
  const command = await findEndOfCommand(tx, commandId);
  if (command === undefined) return 'open';
  const output =
    command.status === 'succeeded'
      ? Output.parse(command.output)
      : LateResult.safeParse(command.lateResult).data?.output;
  if (sync.finishedAt !== null && (output === undefined || command.lateResult === null)) return 'nothing';
  const vault = await BackupVault.query(tx).findById(sync.vaultId).throwIfNotFound();
  const source = await BackupRepository.query(tx).findById(vault.sourceRepositoryId).throwIfNotFound();
  const target = await BackupRepository.query(tx).findById(vault.repositoryId).throwIfNotFound();
  return { sync, vault, source, target, command, output };
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

async function end(tx: Tx, ended: Ended, seen: SeenCopies | EngineError): Promise<void> {
  const { command, output } = ended;
  const sync = await VaultSync.query(tx).findById(ended.sync.id).forUpdate().throwIfNotFound();
  if (seen instanceof EngineError) {
    await failSync(tx, sync, { code: `SERVER_${seen.code}`, message: `On the server: ${seen.message}` });
    return;
  }
  const { added, sources } = await recordCopies(tx, ended, seen);
  if (command.status === 'cancelled' && output === undefined) {
    await cancelSyncNow(tx, sync);
    return;
  }
  if (output === undefined) {
    const { code, message } = command.error ?? SILENT_ENDS[command.status] ?? UNKNOWN;
    if (code === 'DESTINATION_FULL') await recordDestinationSpace(tx, ended.target.id, { freeBytes: 0 });
    await failSync(tx, sync, { code, message, copied: added });
    return;
  }
  await recordDestinationSpace(tx, ended.target.id, output.destinationRoom);
  const missing = sync.wanted.filter((id) => !sources.has(id)).length;
  if (missing > 0) {
    const message = `${missing} of ${sync.wanted.length} snapshots are not in the vault after the sync.`;
    await failSync(tx, sync, { code: 'SNAPSHOT_MISSING', message, copied: added });
    return;
  }
  await endAccess(tx, sync);
  await sync.$query(tx).patch({
    status: 'completed',
    copiedSnapshots: added,
    errorCode: null,
    errorMessage: null,
    finishedAt: sync.finishedAt ?? clock.date(),
  });
  // A backup that has ended meanwhile found this sync in flight.
  await addFollowingSync(tx, sync);
}

/** The findings in a vault. The ids are those of the engine. */
interface SeenCopies {
  copies: readonly { source: string; copy: string }[];
  /** The snapshots about which this says everything: one of them that is not among the copies has none. */
  covers: 'all' | readonly string[];
  /** Every snapshot of the vault, if that is known. */
  present?: readonly string[];
}

/**
 * Makes the snapshots of a vault those that were found there.
 * @returns how many are new, and of which snapshots there are copies now
 */
async function recordCopies(
  tx: Tx,
  { source, target }: { source: BackupRepository; target: BackupRepository },
  { copies, covers, present }: SeenCopies,
): Promise<{ added: number; sources: ReadonlySet<string> }> {
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
  const sources = new Set<string>();
  for (const original of originals) {
    const copy = copies.find((one) => one.source === original.engineId)?.copy ?? '';
    const row = known.get(copy);
    sources.add(original.engineId);
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
  return { added, sources };
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
