import type { RelationMappings } from 'objection';
import { BaseModel, belongsTo } from '../../platform/db/base-model.ts';
import type { RetentionRule } from '../../platform/db/retention-rule.ts';
import type { CommandProgress, DatabaseEngine, HypervisorKind } from '../../protocol/index.ts';
import { DeviceModel } from '../devices/index.ts';
import type { VolumeQuery } from './images.ts';
import { BackupSnapshot } from './snapshot.model.ts';

/** As long as the jobs that made the snapshots. */
const DAYS = 400;

export const restoreRetention: readonly RetentionRule[] = [
  {
    table: 'backup_restores',
    key: ['id'],
    days: DAYS,
    isOver: (days) => `old.finished_at < now() - make_interval(days => ${days})`,
    organization: {},
  },
];

interface RestoredMachine {
  hypervisor: HypervisorKind;
  name: string | null;
  vmName: string | null;
  generateNewId: boolean;
}

/** A restore to a device, as a person requested it. A trigger of the database lets it follow its command. */
export class BackupRestore extends BaseModel {
  static override tableName = 'backup_restores';
  static override relationMappings = (): RelationMappings => ({
    device: belongsTo(DeviceModel, 'backup_restores', 'device_id'),
    snapshot: belongsTo(BackupSnapshot, 'backup_restores', 'snapshot_id'),
  });
  static override jsonAttributes = [
    'selectedPaths',
    'image',
    'volume',
    'progress',
    'failed',
    'database',
    'databaseResult',
    'machine',
  ];
  declare orgId: string;
  declare deviceId: string;
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
  declare status: 'pending' | 'running' | 'completed' | 'partial' | 'failed' | 'cancelled';
  /** The command of the newest attempt. */
  declare commandId: string;
  declare credentialId: string | null;
  declare attempts: number;
  declare expiresAt: Date;
  declare progress: Omit<CommandProgress, 'id' | 'seq'> | null;
  /** When the device last reported something else than before. */
  declare advancedAt: Date | null;
  declare stalledSince: Date | null;
  declare restoredBytes: string | null;
  declare restoredFiles: string | null;
  declare skippedFiles: string | null;
  declare failedCount: string;
  declare failed: { path: string; message: string }[];
  declare errorCode: string | null;
  declare errorMessage: string | null;
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
  declare createdBy: string | null;
  declare startedAt: Date | null;
  declare finishedAt: Date | null;
}
