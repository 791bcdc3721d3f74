import type { Db } from '../../platform/db/pool.ts';
import { bounded, byRules, cascade } from '../../platform/db/retention-rule.ts';
import type { BackupStore, QuotaLimits } from '../backup-store/index.ts';
import { CREATED_BY_PEOPLE, defineFeature } from '../feature.ts';
import { configActionRoutes, configRoutes } from './config.routes.ts';
import { SEALED_CONFIG_SECRET } from './config.model.ts';
import { SEALED_KEY_MATERIAL } from './key.model.ts';
import { jobRoutes } from './job.routes.ts';
import { addBackupJobs, type BackgroundParts } from './job.work.ts';
import { addRotationJobs } from './key-rotation.work.ts';
import { keyRoutes, recoveryKitRoutes } from './key.routes.ts';
import { addMaintenanceJobs } from './maintenance.work.ts';
import { overviewRoutes } from './overview.routes.ts';
import { slaRetention, usageRetention } from './protection.model.ts';
import { type ServerEngine, repositoryPassword } from './repository-access.ts';
import { addRestore, addRestoreWork, RESTORE } from './restore.work.ts';
import { restoreRoutes } from './restore.routes.ts';
import { slaRoutes } from './sla.routes.ts';
import { addReconciliationJob } from './snapshot-reconciliation.work.ts';
import { type ReadingParts, readingRoutes, snapshotRoutes } from './snapshot.routes.ts';
import { SEALED_VAULT_SECRET } from './vault.model.ts';
import { vaultRoutes } from './vault.routes.ts';
import { BACKUP } from './add-job.ts';
import { VAULT_SYNC } from './vault-sync.ts';
import { VERIFICATION } from './verification.service.ts';
import { workTimeline } from '../work/index.ts';
import { addVaultWork } from './vault.work.ts';
import { verificationRoutes } from './verification.routes.ts';
import { addVerificationWork, type VerificationWorkParts } from './verification.work.ts';
import { addWatchJobs } from './watch.work.ts';
import { createLongWork, LONG_WORK_CHANNEL } from './job-feed.ts';
import { makeEncryptionKey, readKey, readKeyMaterial } from './key.service.ts';
import { expectedWithinMinutes, lateSince, minutesSince } from './protection.ts';
import { ageRisk, scoreOf } from './readiness.ts';
import { isEverDue, nextSlot } from './schedule.ts';
import {
  badEnd,
  cancelBackup,
  cancelFileRestore,
  DISCARD_TIMEOUT_SECONDS,
  discardRestoredFiles,
  endsById,
  endsOfBackups,
  endsOfFileRestores,
  sourceOf,
  startBackup,
  startFileRestore,
  startMachineBackup,
  storedSnapshot,
} from './disaster-recovery.ts';
import { newestSnapshots } from './snapshot.queries.ts';
import { chainSnapshots } from './database-chain-state.ts';
import { assertCanWork, askDevice, LIVE_ERRORS, readOfDevice, readOfDevices } from './device-requests.ts';
import { mapEngineErrors, assertPresent, openSnapshot } from './repository-readers.ts';
import { imagePathIn, noImage } from './images.ts';
import { prepareRun, runBackup } from './job.service.ts';
import { chainsOf, planInstant, planSnapshot } from './database-chains.ts';
import { accessForDevice, openSource, RESTORE_TTL_SECONDS, targetPathFault } from './restore-command.ts';
import { assertFewOpenRestores, findRestoreTarget, toRestoreResponse } from './restore.service.ts';
import { findSnapshot } from './snapshot.service.ts';

/** What devices do for backups, for their timelines. */
export const backupTimeline = [BACKUP, RESTORE, VAULT_SYNC, VERIFICATION].map(({ kind }) =>
  workTimeline(kind, { kind: 'backup', permission: 'backup:read' }),
);

export { backupReport } from './backup-report.queries.ts';
export { backupTrend } from './backup-trend.queries.ts';

// For the composition root.
export { backupConfigsUseFilters } from './config.service.ts';
export { OpenedImages } from './images.ts';
export { ServerEngine, storePath } from './repository-access.ts';
export { RepositoryReaders } from './repository-readers.ts';

// For the backup of cloud services, which has schedules, keys, jobs and readiness of the same kinds.
export type { WorkSource } from './job-feed.queries.ts';
export type { ReadinessSource } from './overview.queries.ts';
export type { RiskSeverity } from './readiness.ts';
export { BackupSchedule } from './schedule.ts';

// For disaster recovery.
export { type Discarded, type WorkDevice, type WorkEnd, WorkRefused } from './disaster-recovery.ts';
export type { FoundSnapshot } from './snapshot.queries.ts';

// For the backup of databases and the recovery of machines, which run as jobs and restores of backups.
export { BackupConfig } from './config.model.ts';
export type { Chain, ChainSnapshot } from './database-chains.ts';
export type { JobParts } from './job.service.ts';
export type { RestoreSource } from './restore-command.ts';
export { BackupRestore as ShownRestore } from './restore.schema.ts';
export type { RestoreParts } from './restore.service.ts';
export { BackupSnapshot } from './snapshot.model.ts';
export { AsOf } from './snapshot.schema.ts';
export type { SourceKind } from './source.schema.ts';

/** The columns of this feature that the key of the installation encrypts. */
export const SEALED_BACKUP_COLUMNS = [SEALED_CONFIG_SECRET, SEALED_KEY_MATERIAL, SEALED_VAULT_SECRET];

/** Backups and restores of files as actions of a recovery plan: begun, cancelled, and asked about. */
export const recoveryActions = {
  startBackup,
  startMachineBackup,
  startFileRestore,
  cancelBackup,
  cancelFileRestore,
  discardRestoredFiles,
  endsOfBackups,
  endsOfFileRestores,
};

/** The parts that actions of recovery plans on restored machines share with those on files. */
export const recoveryWork = { badEnd, endsById, sourceOf, storedSnapshot, DISCARD_TIMEOUT_SECONDS };

/** Rules of every restore, of files, databases and machines. */
export const restoreRules = {
  addRestore,
  accessForDevice,
  openSource,
  RESTORE_TTL_SECONDS,
  targetPathFault,
  assertFewOpenRestores,
  findRestoreTarget,
  toRestoreResponse,
};

/** Live questions to a device about its backups. */
export const deviceRequests = { askDevice, assertCanWork, readOfDevice, readOfDevices, LIVE_ERRORS };

/** Snapshots of every kind: found by their ids, and opened for reading. */
export const snapshotReading = {
  findSnapshot,
  newestSnapshots,
  assertPresent,
  openSnapshot,
  mapEngineErrors,
  imagePathIn,
  noImage,
};

/** Full backups of a database and the logs that continue them. */
export const databaseChains = { chainSnapshots, chainsOf, planInstant, planSnapshot };

/** Keys of organizations, with which restic and the content store encrypt. */
export const encryptionKeys = { makeEncryptionKey, readKey, readKeyMaterial, repositoryPassword };

/** How risks add up to the readiness of a device or a connection. */
export const readinessRules = { ageRisk, scoreOf, expectedWithinMinutes, lateSince, minutesSince };

/** Jobs that another feature begins. */
export const backupJobs = { prepareRun, runBackup };

/** The feed of backups, restores and the like for dashboards. */
export const longWorkFeed = { createLongWork, LONG_WORK_CHANNEL };

/** When a schedule is due. */
export const scheduleTimes = { isEverDue, nextSlot };

type BackgroundJobParts = Omit<BackgroundParts & VerificationWorkParts, 'engine' | 'storage'> & {
  db: Db;
  backupEngine: ServerEngine;
  backupStore: Pick<BackupStore, 'storage'> & { quota: QuotaLimits };
};

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
      Parameters<typeof verificationRoutes>[0],
  ) => [
    configRoutes(parts),
    configActionRoutes(parts),
    jobRoutes(parts),
    keyRoutes(parts),
    recoveryKitRoutes(parts),
    snapshotRoutes,
    readingRoutes(parts),
    restoreRoutes(parts),
    verificationRoutes(parts),
    vaultRoutes(parts),
    overviewRoutes(parts),
    slaRoutes,
  ],
  jobs(parts: BackgroundJobParts) {
    const serverParts = { ...parts, engine: parts.backupEngine, storage: parts.backupStore.storage };
    addBackupJobs(serverParts);
    addMaintenanceJobs(parts.jobs, serverParts);
    addReconciliationJob(parts.jobs, serverParts);
    addRotationJobs(parts.jobs, serverParts);
    addVerificationWork(serverParts);
    addVaultWork(serverParts);
    addRestoreWork(serverParts);
    addWatchJobs(parts.jobs, { ...parts.backupStore, db: parts.db });
  },
  tables: [
    bounded('backup_configs', CREATED_BY_PEOPLE),
    bounded('backup_encryption_keys', CREATED_BY_PEOPLE),
    cascade('backup_encryption_key_versions', 'backup_encryption_keys'),
    cascade('backup_schedule_slots', 'backup_configs'),
    cascade('backup_job_facts', 'work'),
    cascade('backup_restore_facts', 'work'),
    cascade('backup_verification_facts', 'work'),
    ...byRules([...usageRetention, ...slaRetention]),
    bounded('backup_vaults', CREATED_BY_PEOPLE),
    cascade('backup_vault_sync_facts', 'work'),
    bounded('backup_readiness', 'a device has one at most'),
    bounded('backup_sla_configs', CREATED_BY_PEOPLE),
    bounded('backup_snapshots', 'they are what the product is about, and retention removes them'),
  ],
});
