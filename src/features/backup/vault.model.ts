import type { RelationMappings } from 'objection';
import { BaseModel, belongsTo } from '../../platform/db/base-model.ts';
import type { SealedColumn } from '../../platform/secrets/secrets.queries.ts';
import type { CommandProgress } from '../../protocol/index.ts';
import { BackupRepository } from '../backup-store/index.ts';
import { DeviceModel } from '../devices/index.ts';
import { Work } from '../work/index.ts';
import type { Provider, StoredDetails } from './config.schema.ts';
import type { BackupSchedule } from './schedule.ts';
import { BackupSnapshot } from './snapshot.model.ts';

/** A copy of a device's repository at a second place. The copy is a repository with snapshots of its own. */
export class BackupVault extends BaseModel {
  static override tableName = 'backup_vaults';
  static override relationMappings = (): RelationMappings => ({
    device: belongsTo(DeviceModel, 'backup_vaults', 'device_id'),
    source: belongsTo(BackupRepository, 'backup_vaults', 'source_repository_id'),
    copy: belongsTo(BackupRepository, 'backup_vaults', 'repository_id'),
  });
  static override jsonAttributes = ['details', 'schedule'];
  declare orgId: string;
  declare deviceId: string;
  declare name: string;
  declare sourceRepositoryId: string;
  declare source?: BackupRepository | null;
  declare repositoryId: string;
  /** The repository of the copies. */
  declare copy?: BackupRepository | null;
  declare provider: Provider;
  declare details: StoredDetails;
  declare sealedSecret: string | null;
  declare isActive: boolean;
  declare syncAfterBackup: boolean;
  declare schedule: BackupSchedule | null;
  declare retentionCount: number;
  declare maxLagHours: number;
  declare nextSyncAt: Date | null;
  declare createdBy: string | null;
}

/** For `npm run rotate-secrets`. */
export const SEALED_VAULT_SECRET: SealedColumn = {
  table: 'backup_vaults',
  column: 'sealed_secret',
  id: 'id',
};

export const SYNC_STATUSES = ['pending', 'running', 'completed', 'failed', 'cancelled'] as const;

const relationsOf = (table: string): RelationMappings => ({
  vault: belongsTo(BackupVault, table, 'vault_id'),
  snapshot: belongsTo(BackupSnapshot, table, 'snapshot_id'),
});

/** What belongs to a sync alone; its state and its end are work. */
export class VaultSyncFacts extends BaseModel {
  static override tableName = 'backup_vault_sync_facts';
  static override relationMappings = (): RelationMappings => ({
    ...relationsOf('backup_vault_sync_facts'),
    work: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Work,
      join: {
        from: ['backup_vault_sync_facts.org_id', 'backup_vault_sync_facts.id'],
        to: ['work.org_id', 'work.id'],
      },
    },
  });
  static override jsonAttributes = ['wanted'];
  static override hasUpdatedAt = false;
  declare orgId: string;
  declare vaultId: string;
  declare reason: 'manual' | 'backup' | 'schedule';
  /** Where only this one is to be copied. */
  declare snapshotId: string | null;
  /** The snapshots that the device was told to copy, by the ids of the engine. */
  declare wanted: string[];
  declare copiedSnapshots: number | null;
}

/** A sync of a vault, for reading: a view of its work and its facts. */
export class VaultSync extends BaseModel {
  static override tableName = 'backup_vault_syncs';
  static override relationMappings = (): RelationMappings => ({
    ...relationsOf('backup_vault_syncs'),
    device: belongsTo(DeviceModel, 'backup_vault_syncs', 'device_id'),
  });
  static override jsonAttributes = ['wanted', 'progress'];
  declare orgId: string;
  declare deviceId: string;
  declare vaultId: string;
  declare vault?: BackupVault | null;
  declare reason: VaultSyncFacts['reason'];
  declare snapshotId: string | null;
  declare status: (typeof SYNC_STATUSES)[number];
  declare commandId: string | null;
  declare wanted: string[];
  declare expiresAt: Date;
  declare cancelRequestedAt: Date | null;
  declare progress: Omit<CommandProgress, 'id' | 'seq'> | null;
  declare copiedSnapshots: number | null;
  declare errorCode: string | null;
  declare errorMessage: string | null;
  declare createdBy: string | null;
  declare startedAt: Date | null;
  declare finishedAt: Date | null;
}
