import type { RelationMappings } from 'objection';
import { BaseModel, belongsTo } from '../../platform/db/base-model.ts';
import type { BackupResult, DatabaseBackupType } from '../../protocol/index.ts';
import { BackupRepository } from '../backup-store/index.ts';
import { DeviceModel } from '../devices/index.ts';
import { Work } from '../work/index.ts';
import { BackupConfig } from './config.model.ts';
import type { JobSources } from './source.schema.ts';

export const JOB_STATUSES = ['pending', 'running', 'completed', 'partial', 'failed', 'cancelled'] as const;
export type JobStatus = (typeof JOB_STATUSES)[number];

const relationsOf = (table: string): RelationMappings => ({
  config: belongsTo(BackupConfig, table, 'config_id'),
  repository: belongsTo(BackupRepository, table, 'repository_id'),
});

/** What belongs to a backup job alone; its state and its end are work. */
export class BackupJobFacts extends BaseModel {
  static override tableName = 'backup_job_facts';
  static override relationMappings = (): RelationMappings => ({
    ...relationsOf('backup_job_facts'),
    work: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Work,
      join: {
        from: ['backup_job_facts.org_id', 'backup_job_facts.id'],
        to: ['work.org_id', 'work.id'],
      },
    },
  });
  static override jsonAttributes = ['sources', 'unreadable', 'leftOut', 'shadowCopies'];
  static override hasUpdatedAt = false;
  declare orgId: string;
  declare deviceId: string;
  declare configId: string | null;
  declare repositoryId: string | null;
  declare type: 'scheduled' | 'manual';
  /** For a backup of a database: the type that a person has asked for. */
  declare wantedType: DatabaseBackupType | null;
  /** The type that was decided when it was given to its device, and the reason. */
  declare backupType: DatabaseBackupType | null;
  declare typeReason: string | null;
  /** The sources that replace those of the configuration. */
  declare sources: JobSources | null;
  declare slot: Date | null;
  declare dueAt: Date;
  /** Of the newest command. */
  declare credentialId: string | null;
  declare addedBytes: string | null;
  /** As the device has reported them at the end; the view has them as the progress of the job. */
  declare processedBytes?: string | null;
  declare processedFiles?: string | null;
  declare unreadableCount: number;
  /** There were more of them. */
  declare unreadable: { path: string; message: string }[];
  /** Virtual file systems below the sources; the messages are their types. */
  declare leftOut: { count: number; paths: { path: string; message: string }[] } | null;
  /** For files on Windows. */
  declare shadowCopies: NonNullable<BackupResult['shadowCopies']> | null;
}

/** One backup of one device, from when it is due until its end, for reading: a view of its work and its facts. */
export class BackupJob extends BackupJobFacts {
  static override tableName = 'backup_jobs';
  static override relationMappings = (): RelationMappings => ({
    ...relationsOf('backup_jobs'),
    device: belongsTo(DeviceModel, 'backup_jobs', 'device_id'),
  });
  declare status: JobStatus;
  /** The command of the ledger, from when the job was given to its device. */
  declare commandId: string | null;
  declare expiresAt: Date;
  declare cancelRequestedAt: Date | null;
  declare phase: string | null;
  declare percent: number | null;
  declare totalBytes: string | null;
  declare doneBytes: string | null;
  declare totalFiles: string | null;
  declare doneFiles: string | null;
  declare currentPath: string | null;
  /** In bytes a second. */
  declare rate: string | null;
  declare etaSeconds: string | null;
  declare lastProgressAt: Date | null;
  /** When the device last reported something else than before. */
  declare advancedAt: Date | null;
  /** Set while a running job makes no progress. See `watch.work.ts`. */
  declare stalledSince: Date | null;
  declare errorCode: string | null;
  declare errorMessage: string | null;
  declare createdBy: string | null;
  declare startedAt: Date | null;
  declare finishedAt: Date | null;
  /** No columns of the view: selected when a job is read to be shown. */
  declare isConnected: boolean | null;
  declare snapshotId: string | null;
}
