import { BaseModel } from '../../../platform/db/base-model.ts';
import type { CommandProgress, DatabaseEngine, HypervisorKind } from '../../../protocol/index.ts';
import type { VolumeQuery } from '../reading/images/opened-images.ts';

interface RestoredMachine {
  hypervisor: HypervisorKind;
  name: string | null;
  vmName: string | null;
  generateNewId: boolean;
}

/** What a person wants restored to a device. It follows its command by a trigger of the database. */
export class BackupRestore extends BaseModel {
  static override tableName = 'backup_restores';
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
  /** Of a disk out of an image; null for files. */
  declare image: { disk?: string | undefined; grow: boolean } | null;
  /** Of files out of an image; null for everything else. */
  declare volume: VolumeQuery | null;
  declare targetPath: string | null;
  /** The entry of the snapshot that comes to `targetPath` itself; null: everything comes below its whole path. */
  declare fromPath: string | null;
  declare overwrite: 'never' | 'ifNewer' | 'always';
  declare dryRun: boolean;
  /** Of the restore of a machine: which one, and what is made of it. */
  declare machine: RestoredMachine | null;
  declare status: 'pending' | 'running' | 'completed' | 'partial' | 'failed' | 'cancelled';
  /** Of the newest attempt. */
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
  /** What was asked for, of a database; null: it is a restore of files. */
  declare database: {
    engine: DatabaseEngine;
    pointInTime: string | null;
    noRecovery: boolean;
    snapshots: number;
    /** Of SQL Server: the new database. */
    targetDatabase?: string;
  } | null;
  /** As the device has reported it. */
  declare databaseResult: unknown;
  declare createdBy: string | null;
  declare startedAt: Date | null;
  declare finishedAt: Date | null;
}
