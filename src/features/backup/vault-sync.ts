import { z } from 'zod';
import { clock } from '../../../clock.ts';
import { EngineError, listSnapshots } from '../../../engine/index.ts';
import { type Tx, withSystem } from '../../../platform/db/transaction.ts';
import { COMMANDS, type CommandOutput } from '../../../protocol/index.ts';
import { type EndedCommand, findEndOfCommand } from '../../commands/index.ts';
import { type RepositoryAccessParts, withRepository } from '../access/open-repository.ts';
import { BackupRepository } from '../repositories/repository.model.ts';
import { noteDestinationRoom } from '../repositories/repository.service.ts';
import { recordCopies, type SeenCopies } from './record-copies.ts';
import { addFollowingSync } from './add-syncs.ts';
import { cancelSyncNow, endAccess, failSync } from './sync-end.ts';
import { BackupVault, VaultSync } from '../vaults/vault.model.ts';

/** The end of a sync, from the end of its command and from what is in the vault. */

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
 * What the vault has. In the backup store the server looks for itself, whatever the device says: a copy has to be there,
 * and to have the tree of the snapshot that it is a copy of. Elsewhere only the device sees it, so its word counts.
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
    if (code === 'DESTINATION_FULL') await noteDestinationRoom(tx, ended.target.id, { freeBytes: 0 });
    await failSync(tx, sync, { code, message, copied: added });
    return;
  }
  await noteDestinationRoom(tx, ended.target.id, output.destinationRoom);
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
