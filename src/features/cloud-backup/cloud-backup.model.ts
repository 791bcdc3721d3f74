import type { RelationMappings } from 'objection';
import { BaseModel } from '../../platform/db/base-model.ts';
import { expiredRows, type RetentionRule } from '../../platform/db/retention-rule.ts';
import type { SealedColumn } from '../../platform/secrets/secrets.queries.ts';
import type { BackupSchedule } from '../backup/index.ts';
import { Organization } from '../organizations/index.ts';
import { Work } from '../work/index.ts';
import type { CloudRetention } from './config.schema.ts';
import type { KindName } from './item-kind.ts';

/** Access to a Microsoft directory, by an app of the organization or of this server. */
export class CloudConnection extends BaseModel {
  static override tableName = 'c2c_connections';
  declare orgId: string;
  declare provider: 'microsoft_365';
  declare authMethod: 'manual' | 'platform_app';
  declare displayName: string;
  declare tenantId: string;
  declare clientId: string | null;
  declare sealedSecret: string | null;
  declare lastErrorCode: string | null;
  declare lastErrorMessage: string | null;
  declare lastSyncAt: Date | null;
  declare throttledUntil: Date | null;
  declare createdBy: string | null;

  static override relationMappings = (): RelationMappings => ({
    organization: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Organization,
      join: { from: 'c2c_connections.org_id', to: 'organizations.id' },
    },
  });
}

/** For `npm run rotate-secrets`. */
export const SEALED_CONNECTION_SECRET: SealedColumn = {
  table: 'c2c_connections',
  column: 'sealed_secret',
  id: 'id',
};

/** Which users' data is backed up, when, and for how long it is kept. */
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
  /** When the last run that stored something ended; `null`: there was none. */
  declare lastSuccessAt: Date | null;
  /** When the schedule was last changed; `null`: not since the configuration was created. */
  declare scheduledSince: Date | null;
  declare removingSince: Date | null;
  declare createdBy: string | null;

  static override relationMappings = (): RelationMappings => ({
    organization: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Organization,
      join: { from: 'c2c_configs.org_id', to: 'organizations.id' },
    },
    connection: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: CloudConnection,
      join: {
        from: ['c2c_configs.org_id', 'c2c_configs.connection_id'],
        to: ['c2c_connections.org_id', 'c2c_connections.id'],
      },
    },
  });
}

interface RestoreTarget {
  connectionId: string;
  user: string | null;
  folder: string;
}

const jobRelations = (table: string): RelationMappings => ({
  organization: {
    relation: BaseModel.BelongsToOneRelation,
    modelClass: Organization,
    join: { from: `${table}.org_id`, to: 'organizations.id' },
  },
  config: {
    relation: BaseModel.BelongsToOneRelation,
    modelClass: CloudConfig,
    join: { from: [`${table}.org_id`, `${table}.config_id`], to: ['c2c_configs.org_id', 'c2c_configs.id'] },
  },
});

/** What belongs to a run of a configuration or to a restore alone; its state and its end are work. */
export class CloudJobFacts extends BaseModel {
  static override tableName = 'c2c_job_facts';
  static override jsonAttributes = ['target'];
  static override hasUpdatedAt = false;
  declare orgId: string;
  declare configId: string;
  declare type: 'backup' | 'restore';
  declare trigger: 'manual' | 'schedule';
  declare target: RestoreTarget | null;
  declare phase: string | null;
  declare partsTotal: number | null;

  static override relationMappings = (): RelationMappings => ({
    ...jobRelations('c2c_job_facts'),
    work: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Work,
      join: { from: ['c2c_job_facts.org_id', 'c2c_job_facts.id'], to: ['work.org_id', 'work.id'] },
    },
  });
}

/** A run of a configuration, or a restore, for reading: a view of its work and its facts. */
export class CloudJob extends BaseModel {
  static override tableName = 'c2c_jobs';
  static override jsonAttributes = ['target'];
  declare orgId: string;
  declare organization?: Organization | null;
  declare configId: string;
  declare config?: CloudConfig | null;
  declare type: 'backup' | 'restore';
  declare trigger: 'manual' | 'schedule';
  declare status: 'pending' | 'running' | 'completed' | 'partial' | 'failed' | 'cancelled';
  declare target: RestoreTarget | null;
  declare phase: string | null;
  declare itemsProcessed: string;
  declare itemsNew: string;
  declare itemsUpdated: string;
  declare itemsDeleted: string;
  declare itemsFailed: string;
  declare bytesTransferred: string;
  declare partsTotal: number | null;
  declare partsDone: number;
  declare errorCode: string | null;
  declare errorMessage: string | null;
  declare cancelRequestedAt: Date | null;
  declare createdBy: string | null;
  declare startedAt: Date | null;
  declare finishedAt: Date | null;

  static override relationMappings = () => jobRelations('c2c_jobs');
}

/** A message, event, contact or file that is backed up. */
export class CloudItem extends BaseModel {
  static override tableName = 'c2c_items';
  static override jsonAttributes = ['metadata'];
  declare orgId: string;
  declare configId: string;
  declare userId: string;
  declare userEmail: string;
  declare kind: KindName;
  declare containerId: string;
  declare externalId: string;
  declare name: string;
  declare parentPath: string;
  declare metadata: Record<string, unknown>;
  declare etag: string | null;
  declare sizeBytes: string | null;
  declare itemDate: Date | null;
  declare versionId: string | null;
  declare isDue: boolean;
  declare errorCode: string | null;
  declare seenRound: number;
  declare deletedAt: Date | null;

  static override relationMappings = (): RelationMappings => ({
    organization: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Organization,
      join: { from: 'c2c_items.org_id', to: 'organizations.id' },
    },
    config: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: CloudConfig,
      join: {
        from: ['c2c_items.org_id', 'c2c_items.config_id'],
        to: ['c2c_configs.org_id', 'c2c_configs.id'],
      },
    },
  });
}

export const consentRetention: readonly RetentionRule[] = [expiredRows('c2c_consents', 'id')];
