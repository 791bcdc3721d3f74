import type { Db } from '../../platform/db/pool.ts';
import { bounded, byRules, cascade, expiredRows } from '../../platform/db/retention/retention-rule.ts';
import type { Logger } from '../../platform/logger.ts';
import { CREATED_BY_PEOPLE, defineFeature } from '../feature.ts';
import { bareMetalRoutes } from './bare-metal/bare-metal.routes.ts';
import { recoveryRetention } from './bare-metal/retention.ts';
import { configActionRoutes } from './config-actions/action.routes.ts';
import { configRoutes } from './configs/config.routes.ts';
import { addBackupJobs, type BackgroundParts } from './jobs/background.ts';
import { databaseRoutes } from './databases/databases.routes.ts';
import { jobRoutes } from './jobs/job.routes.ts';
import { addReconciliationJob } from './reconciliation/reconcile-snapshots.ts';
import { machineRoutes } from './machines/machines.routes.ts';
import { HYPERV, KVM } from './machines/served-hypervisor.ts';
import { addMaintenanceJobs } from './maintenance/maintenance.jobs.ts';
import { overviewRoutes } from './overview/overview.routes.ts';
import { usageRetention } from './overview/retention.ts';
import { addRotationJobs } from './rotation/rotation.jobs.ts';
import { slaRoutes } from './sla/sla.routes.ts';
import { slaRetention } from './sla/retention.ts';
import { addWatchJobs } from './watch/watch.jobs.ts';
import { verificationRetention } from './verification/retention.ts';
import { addVerificationJobs } from './verification/verification.jobs.ts';
import { verificationRoutes } from './verification/verification.routes.ts';
import { jobRetention } from './jobs/retention.ts';
import { recoveryKitRoutes } from './recovery-kit/recovery-kit.routes.ts';
import { keyRoutes } from './keys/key.routes.ts';
import { type ReadingParts, readingRoutes } from './reading/reading.routes.ts';
import { restoreRoutes } from './restores/restore.routes.ts';
import { restoreRetention } from './restores/retention.ts';
import { sqlServerRoutes } from './sql-server/sql-server.routes.ts';
import { addVmRefreshJob } from './vm-restores/refresh.ts';
import { vmRestoreRetention } from './vm-restores/retention.ts';
import { vmRestoreRoutes } from './vm-restores/vm-restore.routes.ts';
import { snapshotRoutes } from './snapshots/snapshot.routes.ts';
import type { ServerEngine } from './access/server-engine.ts';
import { vaultSyncRetention } from './vaults/retention.ts';
import { addVaultJobs } from './vault-syncs/vault.jobs.ts';
import { vssRoutes } from './vss/vss.routes.ts';
import { vaultRoutes } from './vault-syncs/vault.routes.ts';
import type { QuotaLimits } from './store/records/quota.ts';
import type { BackupStore } from './store/requests/create-store.ts';
import { addUpkeepJobs, ReconcileAtStart } from './store/upkeep/upkeep.ts';

export { SEALED_CONFIG_SECRET } from './configs/config.model.ts';
export { backupConfigsUseFilters } from './configs/targets.ts';
export { recoveryLimits } from './bare-metal/recovery-limits.ts';
export { addsJobAtEnd } from './jobs/background.ts';
export { ReturnedDevices } from './jobs/returned-devices.ts';
export { createLongWork, LONG_WORK_CHANNEL } from './live/long-work.ts';
export type { WorkSource } from './live/work-source.ts';
export type { ReadinessSource } from './overview/readiness-source.ts';
export { cancelWork } from './recovery-work/cancel-work.ts';
export { type FoundSnapshot, newestSnapshots } from './recovery-work/find-snapshots.ts';
export { orderBackup, orderMachineBackup } from './recovery-work/order-backup.ts';
export { orderFilesDiscard, orderMachineDiscard } from './recovery-work/order-discard.ts';
export { orderFiles } from './recovery-work/order-files.ts';
export { orderMachine } from './recovery-work/order-machine.ts';
export { readGuest } from './recovery-work/read-guest.ts';
export { WorkRefused } from './recovery-work/refusal.ts';
export { type WorkEnd, workEnds } from './recovery-work/work-ends.ts';
export { brokenRule as targetPathFault } from './restores/target-path.ts';
export { expectedWithinMinutes, lateSince, minutesSince } from './core/protection.ts';
export { ageRisk, type RiskSeverity, scoreOf } from './core/readiness.ts';
export { BackupSchedule } from './core/schedule.schema.ts';
export { isEverDue, nextSlot } from './core/schedule.ts';
export { makeEncryptionKey, readKey, readKeyMaterial } from './keys/key.service.ts';
export type { StoreQuota } from './store/records/quota.ts';
export type { ObjectStorage } from './store/storage/storage.ts';
export { SEALED_VAULT_SECRET } from './vaults/vault.model.ts';
export { SEALED_KEY_MATERIAL } from './keys/key.model.ts';
export { OpenedImages } from './reading/images/opened-images.ts';
export { RepositoryReaders } from './reading/repository-readers.ts';
export { ServerEngine } from './access/server-engine.ts';
export { createStore } from './store/requests/create-store.ts';
export { FolderStorage } from './store/storage/folder-storage.ts';
export { S3Storage } from './store/storage/s3-storage.ts';

interface StoreParts {
  db: Db;
  log: Logger;
  backupStore: Pick<BackupStore, 'storage'> & { quota: QuotaLimits; trashDays: number };
}

type JobParts = StoreParts & Omit<BackgroundParts, 'engine' | 'storage'> & { backupEngine: ServerEngine };

const upkeep = ({ db, log, backupStore: { storage, trashDays } }: StoreParts) => ({
  db,
  log,
  storage,
  trashDays,
});

export const feature = defineFeature({
  name: 'backup',
  routes: (
    parts: Parameters<typeof configRoutes>[0] &
      Parameters<typeof keyRoutes>[0] &
      Parameters<typeof jobRoutes>[0] &
      Parameters<typeof configActionRoutes>[0] &
      ReadingParts &
      Parameters<typeof restoreRoutes>[0] &
      Parameters<typeof vaultRoutes>[0] &
      Parameters<typeof overviewRoutes>[0] &
      Parameters<typeof bareMetalRoutes>[0],
  ) => [
    configRoutes(parts),
    configActionRoutes(parts),
    jobRoutes(parts),
    keyRoutes(parts),
    recoveryKitRoutes(parts),
    snapshotRoutes,
    readingRoutes(parts),
    vmRestoreRoutes(parts),
    restoreRoutes(parts),
    databaseRoutes(parts),
    verificationRoutes(parts),
    vaultRoutes(parts),
    bareMetalRoutes(parts),
    vssRoutes(parts),
    machineRoutes(HYPERV, parts),
    machineRoutes(KVM, parts),
    sqlServerRoutes(parts),
    overviewRoutes(parts),
    slaRoutes,
  ],
  workers: (parts: StoreParts) => ({
    'reconciliation of the backup store': new ReconcileAtStart(upkeep(parts)),
  }),
  jobs(parts: JobParts) {
    addUpkeepJobs(parts.jobs, upkeep(parts));
    const serverParts = { ...parts, engine: parts.backupEngine, storage: parts.backupStore.storage };
    addBackupJobs(serverParts);
    addMaintenanceJobs(parts.jobs, serverParts);
    addReconciliationJob(parts.jobs, serverParts);
    addRotationJobs(parts.jobs, serverParts);
    addVerificationJobs(parts.jobs, serverParts);
    addVaultJobs(serverParts);
    addVmRefreshJob(serverParts);
    addWatchJobs(parts.jobs, { ...parts.backupStore, db: parts.db });
  },
  tables: [
    bounded('backup_configs', CREATED_BY_PEOPLE),
    bounded('backup_encryption_keys', CREATED_BY_PEOPLE),
    cascade('backup_encryption_key_versions', 'backup_encryption_keys'),
    cascade('backup_schedule_slots', 'backup_configs'),
    bounded('backup_repositories', 'a device has one for each of its backup configurations'),
    cascade('backup_objects', 'backup_repositories'),
    ...byRules([
      expiredRows('backup_store_credentials', 'id', 30),
      ...jobRetention,
      ...restoreRetention,
      ...vmRestoreRetention,
    ]),
    ...byRules([...verificationRetention, ...usageRetention, ...slaRetention]),
    bounded(
      'backup_database_instances',
      'a device lists 64 at most, and those that it lists no more are removed',
    ),
    bounded('backup_vaults', CREATED_BY_PEOPLE),
    ...byRules(vaultSyncRetention),
    ...byRules(recoveryRetention),
    bounded('backup_machines', 'a device lists at most a thousand of each hypervisor'),
    bounded('backup_readiness', 'a device has one at most'),
    bounded('backup_sla_configs', CREATED_BY_PEOPLE),
    bounded('backup_snapshots', 'they are what the product is about, and retention removes them'),
  ],
});
