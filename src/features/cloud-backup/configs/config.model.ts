import { BaseModel } from '../../../platform/db/base-model.ts';
import type { BackupSchedule } from '../../backup/index.ts';
import type { KindName } from '../kinds/kind.ts';
import type { CloudRetention } from './config.schema.ts';

/** What of which users is backed up, when, and for how long it is kept. */
export class CloudConfig extends BaseModel {
  static override tableName = 'c2c_configs';
  static override jsonAttributes = ['schedule', 'retention'];
  declare orgId: string;
  declare connectionId: string;
  declare name: string;
  declare encryptionKeyId: string;
  declare backupScope: KindName[];
  declare allUsers: boolean;
  declare targetUsers: string[];
  declare schedule: BackupSchedule | null;
  declare retention: CloudRetention;
  declare enabled: boolean;
  declare nextRunAt: Date | null;
  /** When the last run ended that has stored something; `null`: there was none. */
  declare lastSuccessAt: Date | null;
  /** Since when the schedule is what it is; `null`: since the configuration was made. */
  declare scheduledSince: Date | null;
  declare removingSince: Date | null;
  declare createdBy: string | null;
}
