import { z } from 'zod';
import { clock, HOUR_MS, MINUTE_MS } from '../../clock.ts';
import { EngineError } from '../../engine/index.ts';
import { eachByItself } from '../../platform/concurrency.ts';
import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSavepoint, withSystem } from '../../platform/db/transaction.ts';
import { defineJob } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import type { Logger } from '../../platform/logger.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { BACKUP_TIMEOUT_SECONDS } from '../../protocol/index.ts';
import { BackupRepository, endCredential } from '../backup-store/index.ts';
import { type AddedCommand, addServerCommand } from '../commands/index.ts';
import type { StepOutcome, WorkEnd, WorkEngine, WorkRun } from '../work/index.ts';
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
import { addSync, recordLateSync, recordSync, settleSync, VAULT_DELETED, VAULT_SYNC } from './vault-sync.ts';
import { BackupVault, VaultSync, VaultSyncFacts } from './vault.model.ts';
import { readSyncReadiness, wantedSnapshots } from './vault.queries.ts';
import { nextSyncOf, secretContext } from './vault.service.ts';

const SCHEDULE = defineJob({
  name: 'backup.vault-schedules',
  input: z.object({}),
  attempts: 1,
  inCluster: 1,
});

export interface VaultWorkParts extends RepositoryAccessParts, OwnAccessParts {
  jobs: Jobs;
  work: WorkEngine;
  log: Logger;
}

/** The background work of vaults (docs/decisions/backup-vaults.md). */
export function addVaultWork(parts: VaultWorkParts): void {
  const { jobs, work, db, log } = parts;
  jobs.handle(SCHEDULE, () => addDueSyncs(db, work, log));
  jobs.schedule(SCHEDULE, { cron: '* * * * *', timeZone: 'UTC' }, {});
  work.add(VAULT_SYNC, {
    steps: { begin: (run) => begin(parts, run), record: (run) => recordSync(parts, run) },
    late: (run) => recordLateSync(parts, run),
    settle: (tx, item, end) => settleSync(tx, work, item, end),
  });
}

const SCHEDULED_AT_ONCE = 200;

/** Several servers take turns: the rows stay locked until the next times are set. */
const addDueSyncs = (db: Db, work: WorkEngine, log: Logger): Promise<void> =>
  withSystem(db, 'add the vault syncs that are due', async (tx) => {
    const vaults = await BackupVault.query(tx)
      .where('is_active', true)
      .where('next_sync_at', '<=', clock.date())
      .orderBy('next_sync_at')
      .limit(SCHEDULED_AT_ONCE)
      .forUpdate()
      .skipLocked();
    await eachByItself(
      vaults,
      (vault) =>
        withSavepoint(tx, async (part) => {
          await addSync(part, work, vault, { reason: 'schedule' });
          await vault.$query(part).patch({ nextSyncAt: await nextSyncOf({ tx: part }, vault) });
        }),
      (error, vault) => {
        log.error({ err: error, vaultId: vault.id }, 'backup.vault_not_scheduled');
        // Otherwise it would stand before all others in every round.
        return vault.$query(tx).patch({ nextSyncAt: new Date(clock.now() + HOUR_MS) });
      },
    );
  });

/** Until what keeps a sync from beginning is looked at again. */
const LOOK_AGAIN_MS = MINUTE_MS;
/** Until the server tries again to make a repository. */
const PREPARE_AGAIN_MS = 10 * MINUTE_MS;

const failed = (code: string, message: string): { end: WorkEnd } => ({
  end: { status: 'failed', code, message },
});

/** Gives a sync to its device, as soon as that is connected and nothing else stands in the way. */
async function begin(parts: VaultWorkParts, { id, log }: WorkRun): Promise<StepOutcome> {
  const readiness = await withSystem(parts.db, 'read whether a vault sync can begin', (tx) =>
    readSyncReadiness(tx, id),
  );
  if (readiness === undefined) return VAULT_DELETED;
  const { isConnected, mayBegin, canSync, lacksEngine, isInitialized } = readiness;
  if (!isConnected) return { until: 'connected' };
  if (!mayBegin) return { waitMs: LOOK_AGAIN_MS };
  if (!canSync) {
    return failed('CAPABILITY_MISSING', 'The agent on this device cannot sync vaults. Update it.');
  }
  if (lacksEngine) return failed('ENGINE_MISSING', 'restic is not installed on this device.');
  if (!isInitialized) {
    try {
      await prepareVault(parts, id);
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
      log.warn({ err: error, detail: error.detail }, 'backup.prepare_vault_failed');
      // All other failures may pass.
      if (error.code !== 'WRONG_KEY') return { waitMs: PREPARE_AGAIN_MS };
      return failed(`SERVER_${error.code}`, `On the server: ${error.message}`);
    }
  }
  return { give: (tx) => giveToDevice(tx, id, parts.secrets), nextStep: 'record' };
}

/** How long the command waits to be sent. A sync whose command was not sent waits for its device again. */
const TTL_SECONDS = 900;
/** The lifetime of the credentials: some time more than the device has, for the result, which ends them. */
const LIFETIME_SECONDS = TTL_SECONDS + BACKUP_TIMEOUT_SECONDS + 1800;

/** For `settleSync`: no copy was made. */
const NO_COPIES = { seen: { copies: [], covers: [] } };

async function giveToDevice(tx: Tx, id: string, secrets: Encryptor): Promise<AddedCommand | StepOutcome> {
  const sync = await VaultSync.query(tx).findById(id).withGraphFetched('vault.[source, copy]');
  const { vault } = sync ?? {};
  if (sync === undefined || vault?.source == null || vault.copy == null) return VAULT_DELETED;
  const { source, copy: target } = vault;
  const fault = await faultOf(tx, { vault, source, target });
  if (fault !== undefined) return failed(fault.code, fault.message);
  const snapshots = await wantedBy(tx, sync, vault);
  if (snapshots.length === 0 && sync.snapshotId !== null) {
    const message = 'The snapshot that was to be copied was removed before the sync began.';
    return { end: { status: 'failed', code: 'SNAPSHOT_MISSING', message, result: NO_COPIES } };
  }
  // Retention has removed them since.
  if (snapshots.length === 0) return { end: { status: 'completed', result: NO_COPIES } };
  const access = await accessToBoth(tx, { sync, vault, source, target, secrets });
  if (access === undefined) return { waitMs: LOOK_AGAIN_MS };
  await VaultSyncFacts.query(tx).findById(id).patch({ wanted: snapshots });
  return addServerCommand(
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
}

interface Repositories {
  vault: BackupVault;
  source: BackupRepository;
  target: BackupRepository;
}

interface Fault {
  code: string;
  message: string;
}

/** A device that has moved takes its vaults along, but not the keys and buckets of the organization it has left. */
async function faultOf(tx: Tx, { vault, source, target }: Repositories): Promise<Fault | undefined> {
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

const configOf = (tx: Tx, { vault, source }: Omit<Repositories, 'target'>) =>
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
  { sync, vault, source, target, secrets }: Repositories & { sync: VaultSync; secrets: Encryptor },
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
  parts: Omit<Repositories, 'target'>,
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
    const sync = await VaultSync.query(tx).findById(syncId).withGraphFetched('vault.[source, copy]');
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
