import type { RelationMappings } from 'objection';
import { BaseModel, belongsTo } from '../../platform/db/base-model.ts';
import { PATH_TEXT_MAX, shortened, type SnapshotDetails, storableText } from '../../protocol/index.ts';
import { BackupRepository } from '../backup-store/index.ts';
import { DeviceModel } from '../devices/index.ts';
import { BackupConfig } from './config.model.ts';
import { BackupJob } from './job.model.ts';

/**
 * Facts that a device writes into a snapshot as it likes: kept within bounds for people to see. Nothing is decided by
 * them.
 */

/** As many as a configuration names. */
const PATHS_MAX = 200;

/** One more than are listed is kept, which says that there are more. */
export const writtenPaths = (paths: readonly string[]): string[] =>
  paths.slice(0, PATHS_MAX + 1).map((path) => shortened(storableText(path), PATH_TEXT_MAX));

export const listedPaths = (written: readonly string[]): { paths: string[]; pathsAreCut?: true } => ({
  paths: written.slice(0, PATHS_MAX),
  ...(written.length > PATHS_MAX ? { pathsAreCut: true } : {}),
});

export function writtenInstant(text: string): Date | null {
  const at = new Date(text);
  return at.getUTCFullYear() >= 1970 && at.getUTCFullYear() <= 9999 ? at : null;
}

/** A snapshot: the state of a device at one time, in a repository. */
export class BackupSnapshot extends BaseModel {
  static override tableName = 'backup_snapshots';
  static override relationMappings = (): RelationMappings => ({
    device: belongsTo(DeviceModel, 'backup_snapshots', 'device_id'),
    config: belongsTo(BackupConfig, 'backup_snapshots', 'config_id'),
    repository: belongsTo(BackupRepository, 'backup_snapshots', 'repository_id'),
    job: belongsTo(BackupJob, 'backup_snapshots', 'job_id'),
    original: belongsTo(BackupSnapshot, 'backup_snapshots', 'copy_of'),
  });
  static override jsonAttributes = ['paths', 'details', 'emptySources'];
  declare orgId: string;
  declare deviceId: string;
  declare configId: string | null;
  declare repositoryId: string;
  declare repository?: BackupRepository | null;
  declare jobId: string | null;
  /** For a snapshot in a vault: the one that it is a copy of. */
  declare copyOf: string | null;
  /** 64 hexadecimal digits. */
  declare engineId: string;
  declare backupType: 'file' | 'system_image' | 'database' | 'application';
  /** When it arrived, by which retention goes. */
  declare receivedAt: Date;
  /** By the clock of the device. */
  declare takenAt: Date | null;
  declare sizeBytes: string | null;
  declare fileCount: string | null;
  declare addedBytes: string | null;
  declare changedFiles: string | null;
  /** The bytes that the store has received with the backup, whatever the device reports. */
  declare receivedBytes: string | null;
  declare paths: string[];
  /** For a snapshot that holds more than files. */
  declare details: SnapshotDetails | null;
  declare isPartial: boolean;
  /** The sources that were there and had no file; null: the device has not said. */
  declare emptySources: string[] | null;
  /** See `jobs/missing-files.ts`. */
  declare lacksFiles: boolean;
  declare legalHold: boolean;
  declare legalHoldReason: string | null;
  /** A virtual machine reads it while it runs. A trigger of the database keeps this. */
  declare inUse: boolean;
  declare immutableUntil: Date | null;
  declare removedAt: Date | null;
  declare removedBecause: string | null;
}
