import type { BackupResult, DatabaseBackupType } from '../../../protocol/index.ts';
import { BaseModel } from '../../../platform/db/base-model.ts';
import type { JobSources } from '../configs/sources.schema.ts';

export const JOB_STATUSES = ['pending', 'running', 'completed', 'partial', 'failed', 'cancelled'] as const;
export type JobStatus = (typeof JOB_STATUSES)[number];

/** One backup of one device, from when it is due until its end. */
export class BackupJob extends BaseModel {
  static override tableName = 'backup_jobs';
  static override jsonAttributes = ['sources', 'unreadable', 'leftOut', 'shadowCopies'];
  declare orgId: string;
  declare deviceId: string;
  declare configId: string | null;
  declare repositoryId: string | null;
  declare type: 'scheduled' | 'manual';
  /** Of a backup of a database: what a person has asked for. */
  declare wantedType: DatabaseBackupType | null;
  /** What was decided when it was given to its device, and why. */
  declare backupType: DatabaseBackupType | null;
  declare typeReason: string | null;
  /** What is backed up in place of what the configuration says. */
  declare sources: JobSources | null;
  declare slot: Date | null;
  declare dueAt: Date;
  declare status: JobStatus;
  declare commandId: string | null;
  declare credentialId: string | null;
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
  /** Of a job that runs. See `watch/stalled.ts`. */
  declare stalledSince: Date | null;
  declare addedBytes: string | null;
  declare errorCode: string | null;
  declare errorMessage: string | null;
  declare unreadableCount: number;
  /** There were more of them. */
  declare unreadable: { path: string; message: string }[];
  /** Virtual file systems below the sources; the messages are their types. */
  declare leftOut: { count: number; paths: { path: string; message: string }[] } | null;
  /** Of files on Windows. */
  declare shadowCopies: NonNullable<BackupResult['shadowCopies']> | null;
  declare createdBy: string | null;
  declare startedAt: Date | null;
  declare finishedAt: Date | null;
  /** No columns of the table: selected where a job is read to be shown. */
  declare isConnected: boolean | null;
  declare snapshotId: string | null;
}
