import type { RelationMappings } from 'objection';
import { BaseModel, belongsTo } from '../../platform/db/base-model.ts';
import type { RetentionRule } from '../../platform/db/retention-rule.ts';
import type { SealedColumn } from '../../platform/secrets/secrets.queries.ts';
import type { CommandProgress } from '../../protocol/index.ts';
import { BackupRepository } from '../backup-store/index.ts';
import { DeviceModel } from '../devices/index.ts';
import type { Provider, StoredDetails } from './config.schema.ts';
import type { BackupSchedule } from './schedule.ts';
import { BackupSnapshot } from './snapshot.model.ts';

/** A vault can be synced after each backup, and the snapshots stay for as long as they are kept. */
const DAYS = 100;

export const vaultSyncRetention: readonly RetentionRule[] = [
  {
    table: 'backup_vault_syncs',
    key: ['id'],
    days: DAYS,
    isOver: (days) => `old.finished_at < now() - make_interval(days => ${days})`,
    organization: {},
  },
];

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

/** One sync of a vault, from when it is wanted until its end. */
export class VaultSync extends BaseModel {
  static override tableName = 'backup_vault_syncs';
  static override relationMappings = (): RelationMappings => ({
    device: belongsTo(DeviceModel, 'backup_vault_syncs', 'device_id'),
    vault: belongsTo(BackupVault, 'backup_vault_syncs', 'vault_id'),
    snapshot: belongsTo(BackupSnapshot, 'backup_vault_syncs', 'snapshot_id'),
  });
  static override jsonAttributes = ['wanted', 'progress'];
  declare orgId: string;
  declare deviceId: string;
  declare vaultId: string;
  declare vault?: BackupVault | null;
  declare reason: 'manual' | 'backup' | 'schedule';
  declare snapshotId: string | null;
  declare status: (typeof SYNC_STATUSES)[number];
  declare commandId: string | null;
  declare sourceCredentialId: string | null;
  declare vaultCredentialId: string | null;
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
