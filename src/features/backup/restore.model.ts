import type { RelationMappings } from 'objection';
import { BaseModel, belongsTo } from '../../platform/db/base-model.ts';
import type { CommandProgress, DatabaseEngine, HypervisorKind } from '../../protocol/index.ts';
import { DeviceModel } from '../devices/index.ts';
import { Work } from '../work/index.ts';
import type { VolumeQuery } from './images.ts';
import { BackupSnapshot } from './snapshot.model.ts';

interface RestoredMachine {
  hypervisor: HypervisorKind;
  name: string | null;
  vmName: string | null;
  generateNewId: boolean;
}

const JSON_OF_FACTS = ['selectedPaths', 'image', 'volume', 'failed', 'database', 'databaseResult', 'machine'];

/** What belongs to a restore alone; its state and its end are work. */
export class RestoreFacts extends BaseModel {
  static override tableName = 'backup_restore_facts';
  static override relationMappings = (): RelationMappings => ({
    snapshot: belongsTo(BackupSnapshot, 'backup_restore_facts', 'snapshot_id'),
    work: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Work,
      join: {
        from: ['backup_restore_facts.org_id', 'backup_restore_facts.id'],
        to: ['work.org_id', 'work.id'],
      },
    },
  });
  static override jsonAttributes = JSON_OF_FACTS;
  static override hasUpdatedAt = false;
  declare orgId: string;
  declare snapshotId: string | null;
  declare asOf: Date | null;
  declare selectedPaths: string[] | null;
  /** For a disk out of an image; null for files. */
  declare image: { disk?: string | undefined; grow: boolean } | null;
  /** For files out of an image; null for everything else. */
  declare volume: VolumeQuery | null;
  declare targetPath: string | null;
  /** The entry of the snapshot that comes to `targetPath` itself; null: everything comes below its whole path. */
  declare fromPath: string | null;
  declare overwrite: 'never' | 'ifNewer' | 'always';
  declare dryRun: boolean;
  /** For the restore of a machine: which one, and what it becomes. */
  declare machine: RestoredMachine | null;
  declare attempts: number;
  declare restoredBytes: string | null;
  declare restoredFiles: string | null;
  declare skippedFiles: string | null;
  declare failedCount: string;
  declare failed: { path: string; message: string }[];
  /** The request for a restore of a database; null for a restore of files. */
  declare database: {
    engine: DatabaseEngine;
    pointInTime: string | null;
    noRecovery: boolean;
    snapshots: number;
    /** For SQL Server: the new database. */
    targetDatabase?: string;
  } | null;
  /** As the device has reported it. */
  declare databaseResult: unknown;
}

/** A restore to a device, for reading: a view of its work and its facts. */
export class BackupRestore extends RestoreFacts {
  static override tableName = 'backup_restores';
  static override relationMappings = (): RelationMappings => ({
    device: belongsTo(DeviceModel, 'backup_restores', 'device_id'),
    snapshot: belongsTo(BackupSnapshot, 'backup_restores', 'snapshot_id'),
  });
  static override jsonAttributes = [...JSON_OF_FACTS, 'progress'];
  declare deviceId: string;
  declare status: 'pending' | 'running' | 'completed' | 'partial' | 'failed' | 'cancelled';
  /** The command of the newest attempt. */
  declare commandId: string;
  declare expiresAt: Date;
  declare progress: Omit<CommandProgress, 'id' | 'seq'> | null;
  /** When the device last reported something else than before. */
  declare advancedAt: Date | null;
  declare stalledSince: Date | null;
  declare errorCode: string | null;
  declare errorMessage: string | null;
  declare createdBy: string | null;
  declare startedAt: Date | null;
  declare finishedAt: Date | null;
}
