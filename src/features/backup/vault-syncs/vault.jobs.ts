import { clock } from '../../../clock.ts';
import { EngineError } from '../../../engine/index.ts';
import type { DeviceHub } from '../../../hub/index.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { type Tx, withSavepoint, withSystem } from '../../../platform/db/transaction.ts';
import { eachByItself } from '../../../platform/each-by-itself.ts';
import type { Logger } from '../../../platform/logger.ts';
import type { JobRun } from '../../../platform/jobs/definition.ts';
import type { Jobs } from '../../../platform/jobs/jobs.ts';
import { type AddedCommand, announceCommands } from '../../commands/index.ts';
import type { OwnAccessParts } from '../access/make-repository.ts';
import type { RepositoryAccessParts } from '../access/open-repository.ts';
import { addDueSyncs } from './add-syncs.ts';
import { type DueSync, dueSyncs, type HandedOver, handOverSync } from './hand-over.ts';
import { prepareVault } from './prepare-vault.ts';
import { settleSync } from './settle.ts';
import { failSync } from './sync-end.ts';
import { HAND_OVER, PREPARE, SETTLE } from './vault-jobs.ts';
import { BackupVault, VaultSync } from '../vaults/vault.model.ts';
import { nextSyncOf } from '../vaults/vault.service.ts';

/** The background work of vaults (docs/decisions/backup-vaults.md). */

export interface VaultJobParts extends RepositoryAccessParts, OwnAccessParts {
  jobs: Jobs;
  hub: DeviceHub;
  log: Logger;
}

export function addVaultJobs(parts: VaultJobParts): void {
  const { jobs } = parts;
  jobs.handle(HAND_OVER, () => handOverDue(parts));
  jobs.schedule(HAND_OVER, { cron: '* * * * *', timeZone: 'UTC' }, {});
  jobs.handle(PREPARE, (run) => prepare(parts, run));
  jobs.handle(SETTLE, async ({ input, signal }) => {
    const settled = await settleSync(parts, input, signal);
    if (settled === 'open') throw new Error('the command of the vault sync has not ended');
    if (settled !== 'nothing') await jobs.enqueue(undefined, HAND_OVER, {});
  });
}

const HOUR_MS = 3_600_000;
const SCHEDULED_AT_ONCE = 200;

async function handOverDue({ db, jobs, hub, secrets, log }: VaultJobParts): Promise<void> {
  await withSystem(db, 'end vault syncs that could not begin in time', expireSyncs);
  await runSchedules(db, log);
  const commands: AddedCommand[] = [];
  const handOver = async (due: DueSync) => {
    if (due.canSync && !due.lacksEngine && !due.isInitialized) {
      // Where all attempts of an hour have failed, the next hour brings new ones.
      const key = `${due.id} ${Math.floor(clock.now() / HOUR_MS)}`;
      await jobs.enqueue(undefined, PREPARE, { syncId: due.id }, { key });
      return;
    }
    const outcome = await withSystem(
      db,
      'give a vault sync to its device',
      async (tx): Promise<HandedOver> =>
        due.canSync && !due.lacksEngine ? handOverSync(tx, due.id, secrets) : refuse(tx, due),
    );
    if (typeof outcome === 'object') commands.push(outcome.command);
  };
  const all = await withSystem(db, 'find the vault syncs that are due', dueSyncs);
  await eachByItself(all, handOver, (error, { id }) =>
    log.error({ err: error, vaultSyncId: id }, 'backup.vault_not_handed_over'),
  );
  if (commands.length > 0) announceCommands(hub, commands);
}

async function refuse(tx: Tx, { id, canSync }: DueSync): Promise<'ended'> {
  await failOpen(
    tx,
    id,
    canSync
      ? { code: 'ENGINE_MISSING', message: 'restic is not installed on this device.' }
      : { code: 'CAPABILITY_MISSING', message: 'The agent on this device cannot sync vaults. Update it.' },
  );
  return 'ended';
}

async function failOpen(tx: Tx, id: string, fault: { code: string; message: string }): Promise<void> {
  const sync = await VaultSync.query(tx).findById(id).whereNull('finished_at').forUpdate();
  if (sync !== undefined) await failSync(tx, sync, fault);
}

const EXPIRED = 'The device was not connected, or has not been backed up, before the sync expired.';

const expireSyncs = async (tx: Tx): Promise<void> => {
  await tx.raw(
    `update backup_vault_syncs set status = 'failed', finished_at = now(), updated_at = now(),
      error_code = 'EXPIRED', error_message = ?
    where finished_at is null and command_id is null and expires_at <= now()`,
    [EXPIRED],
  );
};

/** Several servers take turns: the rows stay locked until the next times are set. */
const runSchedules = (db: Db, log: Logger): Promise<void> =>
  withSystem(db, 'add the vault syncs that are due', async (tx) => {
    const vaults = await BackupVault.query(tx)
      .where('is_active', true)
      .where('next_sync_at', '<=', clock.date())
      .orderBy('next_sync_at')
      .limit(SCHEDULED_AT_ONCE)
      .forUpdate()
      .skipLocked();
    await addDueSyncs(
      tx,
      vaults.map(({ id }) => id),
    );
    await eachByItself(
      vaults,
      (vault) =>
        withSavepoint(tx, async (part) =>
          vault.$query(part).patch({ nextSyncAt: await nextSyncOf({ tx: part }, vault) }),
        ),
      (error, vault) => {
        log.error({ err: error, vaultId: vault.id }, 'backup.vault_not_scheduled');
        // Otherwise it would stand before all others in every round.
        return vault.$query(tx).patch({ nextSyncAt: new Date(clock.now() + HOUR_MS) });
      },
    );
  });

/** Makes the repository, and then gives the sync to its device. What does not pass with time fails the sync. */
async function prepare(
  parts: VaultJobParts,
  { input: { syncId }, log }: JobRun<{ syncId: string }>,
): Promise<void> {
  try {
    await prepareVault(parts, syncId);
  } catch (error) {
    if (!(error instanceof EngineError)) throw error;
    log.warn({ err: error, vaultSyncId: syncId, detail: error.detail }, 'backup.prepare_vault_failed');
    if (error.code !== 'WRONG_KEY') throw error;
    const { code, message } = error;
    await withSystem(parts.db, 'end a vault sync whose repository cannot be made', (tx) =>
      failOpen(tx, syncId, { code: `SERVER_${code}`, message: `On the server: ${message}` }),
    );
    return;
  }
  await parts.jobs.enqueue(undefined, HAND_OVER, {});
}
