import { BaseModel } from '../../../platform/db/base-model.ts';
import type { SnapshotDetails } from '../../../protocol/index.ts';
import { BackupRepository } from '../repositories/repository.model.ts';

/** What a backup has made: the state of a device at one time, in a repository. */
export class BackupSnapshot extends BaseModel {
  static override tableName = 'backup_snapshots';
  static override jsonAttributes = ['paths', 'details', 'emptySources'];
  static override relationMappings = () => ({
    repository: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: BackupRepository,
      join: {
        from: ['backup_snapshots.org_id', 'backup_snapshots.repository_id'],
        to: ['backup_repositories.org_id', 'backup_repositories.id'],
      },
    },
  });
  declare orgId: string;
  declare deviceId: string;
  declare configId: string | null;
  declare repositoryId: string;
  declare jobId: string | null;
  /** Of a snapshot in a vault: the one that it is a copy of. */
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
  /** What the store has received with the backup, whatever the device says. */
  declare receivedBytes: string | null;
  declare paths: string[];
  /** Of a snapshot that is more than files. */
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
