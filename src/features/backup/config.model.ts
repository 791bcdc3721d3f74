import { BaseModel } from '../../../platform/db/base-model.ts';
import type { SealedColumn } from '../../../platform/secrets/reseal.ts';
import type { Retention } from '../core/retention.schema.ts';
import type { BackupSchedule } from '../core/schedule.schema.ts';
import type { BackupLimits, BackupTargets, Provider } from './config.schema.ts';
import type { StoredDetails } from './details.schema.ts';
import type { BackupSources } from './sources.schema.ts';

/** What is backed up, where to, when and for how long. */
export class BackupConfig extends BaseModel {
  static override tableName = 'backup_configs';
  static override jsonAttributes = ['details', 'sources', 'schedule', 'retention', 'targets', 'limits'];
  declare orgId: string;
  declare name: string;
  declare provider: Provider;
  declare details: StoredDetails;
  /** The secret of the provider, where it has one. */
  declare sealedSecret: string | null;
  declare encryptionKeyId: string;
  declare enabled: boolean;
  declare isDefault: boolean;
  declare sources: BackupSources;
  declare schedule: BackupSchedule | null;
  declare retention: Retention;
  declare targets: BackupTargets;
  declare limits: BackupLimits;
  /** Slots before this time are not made up for. */
  declare scheduledSince: Date;
  declare createdBy: string | null;
}

/** For `npm run rotate-secrets`. */
export const SEALED_CONFIG_SECRET: SealedColumn = {
  table: 'backup_configs',
  column: 'sealed_secret',
  id: 'id',
};
