import type { RelationMappings } from 'objection';
import { BaseModel, belongsTo } from '../../platform/db/base-model.ts';
import { DeviceModel } from '../devices/index.ts';

/** A restic repository of one device. Its objects are in the backup store. */
export class BackupRepository extends BaseModel {
  static override tableName = 'backup_repositories';
  static override relationMappings = (): RelationMappings => ({
    device: belongsTo(DeviceModel, 'backup_repositories', 'device_id'),
  });
  declare orgId: string;
  declare deviceId: string;
  declare configId: string | null;
  /** The repository holds copies of another repository of the device. */
  declare isVault: boolean;
  declare provider: 'server' | 's3' | 'local';
  declare encryptionKeyId: string | null;
  /** The version of the key that opens it now. */
  declare keyVersion: number | null;
  /** Keys of other versions, and unknown ones, have to be removed from it. */
  declare hasOldKeys: boolean;
  /** The id of that key in the repository, which the engine takes as a hint. */
  declare engineKeyId: string | null;
  /** Since when the engine can open it. */
  declare initializedAt: Date | null;
  /** The bytes of all objects, those in the trash included. */
  declare storedBytes: string;
  /** Outside of the backup store: what the device has found to be free after its last backup or sync. */
  declare destinationFreeBytes: string | null;
  declare destinationTotalBytes: string | null;
  declare pruningUntil: Date | null;
  declare trashHeldAt: Date | null;
  declare purgedThrough: Date | null;
  /** Since when snapshots are removed whose data is still there. */
  declare pruneDueSince: Date | null;
  declare prunedAt: Date | null;
  /** The data is read in so many parts, of which so many were found sound in the present round. */
  declare readParts: number;
  declare readPartsDone: number;
  /** When the last round began that found all data sound. */
  declare readWholeSince: Date | null;
}
