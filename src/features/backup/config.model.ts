import type { RelationMappings } from 'objection';
import { BaseModel, belongsTo } from '../../platform/db/base-model.ts';
import type { SealedColumn } from '../../platform/secrets/secrets.queries.ts';
import { Organization } from '../organizations/index.ts';
import type { BackupLimits, BackupTargets, Provider, StoredDetails } from './config.schema.ts';
import { EncryptionKey } from './key.model.ts';
import type { Retention } from './retention.ts';
import type { BackupSchedule } from './schedule.ts';
import type { BackupSources } from './source.schema.ts';

/** A backup configuration: the sources, the destination, the schedule and the retention. */
export class BackupConfig extends BaseModel {
  static override tableName = 'backup_configs';
  static override relationMappings = (): RelationMappings => ({
    organization: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Organization,
      join: { from: 'backup_configs.org_id', to: 'organizations.id' },
    },
    encryptionKey: belongsTo(EncryptionKey, 'backup_configs', 'encryption_key_id'),
  });
  static override jsonAttributes = ['details', 'sources', 'schedule', 'retention', 'targets', 'limits'];
  declare orgId: string;
  declare name: string;
  declare provider: Provider;
  declare details: StoredDetails;
  /** The secret of the provider, if it has one. */
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
