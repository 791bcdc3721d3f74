import type { Db } from '../../platform/db/pool.ts';
import { bounded, byRules, cascade, expiredRows } from '../../platform/db/retention-rule.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import type { Logger } from '../../platform/logger.ts';
import { defineFeature } from '../feature.ts';
import type { QuotaLimits } from './quota.ts';
import type { BackupStore } from './store.service.ts';
import { addUpkeepJobs, ReconcileAtStart } from './upkeep.work.ts';

export { type BackupStore, createStore } from './store.service.ts';
export {
  endCredential,
  endCredentialsOfJob,
  extendCredential,
  extendCredentialsOfJob,
  issueCredential,
  type NewCredential,
} from './credentials.ts';
export { type StoreAccess, type ObjectName } from './store-protocol.ts';
export { FolderStorage } from './folder-storage.ts';
export {
  endAbandoned,
  markUnreadable,
  bytesWrittenWith,
  findObject,
  indexState,
  snapshotWrittenWith,
  trashObject,
} from './store.queries.ts';
export { discardObject, putObject, storeSource } from './store-objects.ts';
export type { QuotaLimits, StoreQuota } from './quota.ts';
export { BackupRepository } from './repository.model.ts';
export {
  beginPrune,
  createRepository,
  endPrune,
  extendPrune,
  holdTrash,
  recordDestinationSpace,
} from './repository.service.ts';
export { S3Storage } from './s3-storage.ts';
export type { ObjectStorage } from './storage.ts';

interface StoreParts {
  db: Db;
  log: Logger;
  backupStore: Pick<BackupStore, 'storage'> & { quota: QuotaLimits; trashDays: number };
}

const upkeep = ({ db, log, backupStore: { storage, trashDays } }: StoreParts) => ({
  db,
  log,
  storage,
  trashDays,
});

export const feature = defineFeature({
  name: 'backup-store',
  workers: (parts: StoreParts) => ({
    'reconciliation of the backup store': new ReconcileAtStart(upkeep(parts)),
  }),
  jobs: (parts: StoreParts & { jobs: Jobs }) => addUpkeepJobs(parts.jobs, upkeep(parts)),
  tables: [
    bounded('backup_repositories', 'a device has one for each of its backup configurations'),
    cascade('backup_objects', 'backup_repositories'),
    ...byRules([expiredRows('backup_store_credentials', 'id', 30)]),
  ],
});
