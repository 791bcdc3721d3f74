import { BaseModel } from '../../../platform/db/base-model.ts';
import type { SealedColumn } from '../../../platform/secrets/reseal.ts';
import type { CommandProgress } from '../../../protocol/index.ts';
import type { Provider } from '../configs/config.schema.ts';
import type { StoredDetails } from '../configs/details.schema.ts';
import type { BackupSchedule } from '../core/schedule.schema.ts';

/** A copy of a device's repository at a second place. The copy is a repository with snapshots of its own. */
export class BackupVault extends BaseModel {
  static override tableName = 'backup_vaults';
  static override jsonAttributes = ['details', 'schedule'];
  declare orgId: string;
  declare deviceId: string;
  declare name: string;
  declare sourceRepositoryId: string;
  declare repositoryId: string;
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
  static override jsonAttributes = ['wanted', 'progress'];
  declare orgId: string;
  declare deviceId: string;
  declare vaultId: string;
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
