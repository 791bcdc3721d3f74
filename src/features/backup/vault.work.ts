import { clock, HOUR_MS } from '../../clock.ts';
import { EngineError } from '../../engine/index.ts';
import type { DeviceHub } from '../../hub/index.ts';
import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSavepoint, withSystem } from '../../platform/db/transaction.ts';
import { eachByItself } from '../../platform/concurrency.ts';
import type { JobRun } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { BACKUP_TIMEOUT_SECONDS } from '../../protocol/index.ts';
import { BackupRepository, endCredential } from '../backup-store/index.ts';
import { type AddedCommand, addServerCommand, announceCommands } from '../commands/index.ts';
import { BackupConfig } from './config.model.ts';
import { secretOf } from './config.service.ts';
import { EncryptionKey } from './key.model.ts';
import {
  makeRepository,
  type OwnAccessParts,
  polynomialOf,
  accessOfDevice,
  type DeviceAccess,
  type PlaceElsewhere,
  type RepositoryAccessParts,
} from './repository-access.ts';
import { BackupSnapshot } from './snapshot.model.ts';
import { failSync, HAND_OVER_VAULTS, PREPARE_VAULT, SETTLE_VAULT_SYNC, settleSync } from './vault-sync.ts';
import { BackupVault, VaultSync } from './vault.model.ts';
import { addDueSyncs, type DueSync, dueSyncs, expireSyncs, wantedSnapshots } from './vault.queries.ts';
import { nextSyncOf, secretContext } from './vault.service.ts';

export interface VaultJobParts extends RepositoryAccessParts, OwnAccessParts {
  jobs: Jobs;
  hub: DeviceHub;
  log: Logger;
}

/** The background work of vaults (docs/decisions/backup-vaults.md). */
export function addVaultJobs(parts: VaultJobParts): void {
  const { jobs } = parts;
  jobs.handle(HAND_OVER_VAULTS, () => handOverDue(parts));
  jobs.schedule(HAND_OVER_VAULTS, { cron: '* * * * *', timeZone: 'UTC' }, {});
  jobs.handle(PREPARE_VAULT, (run) => prepare(parts, run));
  jobs.handle(SETTLE_VAULT_SYNC, async ({ input, signal }) => {
    const settled = await settleSync(parts, input, signal);
    if (settled === 'open') throw new Error('the command of the vault sync has not ended');
    if (settled !== 'nothing') await jobs.enqueue(undefined, HAND_OVER_VAULTS, {});
  });
}

const SCHEDULED_AT_ONCE = 200;

async function handOverDue({ db, jobs, hub, secrets, log }: VaultJobParts): Promise<void> {
  await withSystem(db, 'end vault syncs that could not begin in time', expireSyncs);
  await runSchedules(db, log);
  const commands: AddedCommand[] = [];
  const handOver = async (due: DueSync) => {
    if (due.canSync && !due.lacksEngine && !due.isInitialized) {
      // If all attempts of an hour have failed, the next hour brings new ones.
      const key = `${due.id} ${Math.floor(clock.now() / HOUR_MS)}`;
      await jobs.enqueue(undefined, PREPARE_VAULT, { syncId: due.id }, { key });
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
  await parts.jobs.enqueue(undefined, HAND_OVER_VAULTS, {});
}

// Hands a sync to its device, as a command of the ledger.

/** How long the command waits to be sent. A sync whose command was not sent waits for its device again. */
const TTL_SECONDS = 900;
/** The lifetime of the credentials: some time more than the device has, for the result, which ends them. */
const LIFETIME_SECONDS = TTL_SECONDS + BACKUP_TIMEOUT_SECONDS + 1800;

/** The outcome of a sync that was due: given to the device, ended, or left for the next time. */
type HandedOver = { command: AddedCommand } | 'ended' | 'waits';

async function handOverSync(tx: Tx, syncId: string, secrets: Encryptor): Promise<HandedOver> {
  const sync = await VaultSync.query(tx)
    .findById(syncId)
    .whereNull('command_id')
    .whereNull('finished_at')
    .forUpdate()
    .skipLocked();
  if (sync === undefined) return 'waits';
  const vault = await BackupVault.query(tx).findById(sync.vaultId).forShare().throwIfNotFound();
  const source = await BackupRepository.query(tx).findById(vault.sourceRepositoryId).throwIfNotFound();
  const target = await BackupRepository.query(tx).findById(vault.repositoryId).throwIfNotFound();
  const fault = await faultOf(tx, { sync, vault, source, target });
  if (fault !== undefined) {
    await failSync(tx, sync, fault);
    return 'ended';
  }
  const snapshots = await wantedBy(tx, sync, vault);
  if (snapshots.length === 0 && sync.snapshotId !== null) {
    const message = 'The snapshot that was to be copied was removed before the sync began.';
    await failSync(tx, sync, { code: 'SNAPSHOT_MISSING', message, copied: 0 });
    return 'ended';
  }
  if (snapshots.length === 0) {
    // Retention has removed them since.
    const at = clock.date();
    await sync.$query(tx).patch({ status: 'completed', copiedSnapshots: 0, finishedAt: at });
    return 'ended';
  }
  const access = await accessToBoth(tx, { sync, vault, source, target, secrets });
  if (access === undefined) return 'waits';
  const command = await addServerCommand(
    tx,
    { id: sync.deviceId, orgId: sync.orgId },
    {
      type: 'backup.vault-sync',
      payload: {
        syncId: sync.id,
        source: access.source.repository,
        vault: access.vault.repository,
        snapshotIds: snapshots,
        timeoutSeconds: BACKUP_TIMEOUT_SECONDS,
      },
      ttlSeconds: TTL_SECONDS,
      timeoutSeconds: BACKUP_TIMEOUT_SECONDS,
      secrets: { values: { ...access.source.values, ...access.vault.values }, encryptor: secrets },
      createdBy: sync.createdBy,
    },
  );
  await sync.$query(tx).patch({
    commandId: command.id,
    sourceCredentialId: access.source.credentialId,
    vaultCredentialId: access.vault.credentialId,
    wanted: snapshots,
  });
  return { command };
}

interface Parts {
  sync: VaultSync;
  vault: BackupVault;
  source: BackupRepository;
  target: BackupRepository;
}

interface Fault {
  code: string;
  message: string;
}

/** A device that has moved takes its vaults along, but not the keys and buckets of the organization it has left. */
async function faultOf(tx: Tx, { vault, source, target }: Parts): Promise<Fault | undefined> {
  const keys = [source, target].flatMap(({ encryptionKeyId }) => encryptionKeyId ?? []);
  const foreign = await EncryptionKey.query(tx).whereIn('id', keys).whereNot('org_id', vault.orgId).first();
  if (foreign !== undefined) {
    const message =
      'An encryption key belongs to the organization that the device has left. Make a new vault.';
    return { code: 'KEY_MISSING', message };
  }
  if (source.provider === 'server' || (await configOf(tx, { vault, source })) !== undefined) return undefined;
  return { code: 'CONFIG_MISSING', message: 'The configuration of the backups was deleted.' };
}

const configOf = (tx: Tx, { vault, source }: Pick<Parts, 'vault' | 'source'>) =>
  BackupConfig.query(tx).findOne({ id: source.configId ?? vault.id, org_id: vault.orgId });

/** All that the vault has to have, also what it should have already: so that a vault that was lost is noticed. */
async function wantedBy(tx: Tx, { snapshotId }: VaultSync, { id }: BackupVault): Promise<string[]> {
  if (snapshotId !== null) {
    const only = await BackupSnapshot.query(tx).findById(snapshotId).whereNull('removed_at');
    return only === undefined ? [] : [only.engineId];
  }
  return wantedSnapshots(tx, id);
}

async function accessToBoth(
  tx: Tx,
  { sync, vault, source, target, secrets }: Parts & { secrets: Encryptor },
): Promise<{ source: DeviceAccess; vault: DeviceAccess } | undefined> {
  const common = { jobId: sync.id, expiresAt: new Date(clock.now() + LIFETIME_SECONDS * 1000) };
  const ofSource = await accessOfDevice(
    tx,
    {
      ...common,
      repository: source,
      role: 'reader',
      elsewhere: () => sourceElsewhere(tx, { vault, source }, secrets),
    },
    secrets,
  );
  if (ofSource === undefined) return undefined;
  const ofVault = await accessOfDevice(
    tx,
    { ...common, repository: target, role: 'vault', elsewhere: () => vaultElsewhere(tx, vault, secrets) },
    secrets,
  );
  if (ofVault !== undefined) return { source: ofSource, vault: ofVault };
  if (ofSource.credentialId !== null) await endCredential(tx, ofSource.credentialId);
  return undefined;
}

async function sourceElsewhere(
  tx: Tx,
  parts: Pick<Parts, 'vault' | 'source'>,
  secrets: Encryptor,
): Promise<PlaceElsewhere> {
  const config = await configOf(tx, parts);
  if (config === undefined) throw new Error('the configuration of the repository is gone');
  return { details: config.details, secret: secretOf(secrets, config), isNew: false };
}

async function vaultElsewhere(tx: Tx, vault: BackupVault, secrets: Encryptor): Promise<PlaceElsewhere> {
  const { id, details, sealedSecret, repositoryId } = vault;
  // Also of copies that are gone: what was once there is not made anew, because then a disk is not mounted.
  const copy = await BackupSnapshot.query(tx).findOne({ repository_id: repositoryId });
  return {
    details,
    secret: sealedSecret === null ? undefined : secrets.open(sealedSecret, secretContext(id)).text,
    isNew: copy === undefined,
  };
}

/**
 * Makes the repository of a vault in the backup store, where a device may not. Its chunks are cut like those of the
 * repository that it copies, if the server can read that one.
 */
async function prepareVault(parts: OwnAccessParts, syncId: string): Promise<void> {
  const found = await withSystem(parts.db, 'read the repositories of a vault', async (tx) => {
    const sync = await VaultSync.query(tx)
      .findById(syncId)
      .whereNull('finished_at')
      .withGraphFetched('vault.[source, copy]');
    const { source, copy: repository } = sync?.vault ?? {};
    return source == null || repository == null ? undefined : { source, repository };
  });
  if (found === undefined || found.repository.initializedAt !== null) return;
  const { source, repository } = found;
  const polynomial = source.provider === 'server' ? await polynomialOf(parts, source) : undefined;
  const engineKeyId = await makeRepository(parts, repository, { polynomial });
  await withSystem(parts.db, 'note that the repository of a vault can be opened', (tx) =>
    BackupRepository.query(tx)
      .findById(repository.id)
      .whereNull('initialized_at')
      .patch({ engineKeyId, initializedAt: clock.date() }),
  );
}
