import type { RelationMappings } from 'objection';
import { BaseModel, belongsTo } from '../../platform/db/base-model.ts';
import type { RetentionRule } from '../../platform/db/retention-rule.ts';
import { BackupRepository } from '../backup-store/index.ts';
import { DeviceModel } from '../devices/index.ts';
import { Work } from '../work/index.ts';
import { Organization } from '../organizations/index.ts';
import { BackupConfig } from './config.model.ts';
import type { Risk } from './readiness.ts';
import { BackupSnapshot } from './snapshot.model.ts';
import type { VerificationDetails } from './verification.schema.ts';

/** The usage history shows 90 days at most. */
export const usageRetention: readonly RetentionRule[] = [
  {
    table: 'backup_usage_days',
    key: ['org_id', 'day', 'provider'],
    days: 100,
    isOver: (days) => `old.day < current_date - ${days}`,
    organization: {},
  },
];

/** How surely a device can be restored, as it was last computed. */
export class DeviceReadiness extends BaseModel {
  static override tableName = 'backup_readiness';
  static override relationMappings = (): RelationMappings => ({
    device: belongsTo(DeviceModel, 'backup_readiness', 'device_id'),
  });
  static override idColumn = 'device_id';
  static override hasOwnId = false;
  static override jsonAttributes = ['risks'];
  static override hasUpdatedAt = false;
  declare deviceId: string;
  declare orgId: string;
  declare score: number;
  declare rtoMinutes: number | null;
  declare rpoMinutes: number | null;
  declare risks: Risk[];
  declare calculatedAt: Date;
}

/** What a verification has found; its state and its end are work. */
export class VerificationFacts extends BaseModel {
  static override tableName = 'backup_verification_facts';
  static override relationMappings = (): RelationMappings => ({
    work: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Work,
      join: {
        from: ['backup_verification_facts.org_id', 'backup_verification_facts.id'],
        to: ['work.org_id', 'work.id'],
      },
    },
    repository: belongsTo(BackupRepository, 'backup_verification_facts', 'repository_id'),
    config: belongsTo(BackupConfig, 'backup_verification_facts', 'config_id'),
    snapshot: belongsTo(BackupSnapshot, 'backup_verification_facts', 'snapshot_id'),
  });
  static override jsonAttributes = ['details'];
  static override hasUpdatedAt = false;
  declare orgId: string;
  declare repositoryId: string | null;
  declare configId: string | null;
  declare snapshotId: string | null;
  declare verificationType: 'integrity' | 'test_restore';
  declare filesVerified: number;
  declare filesFailed: number;
  declare sizeBytes: string;
  declare restoreSeconds: number | null;
  declare details: VerificationDetails;
}

/** One attempt to prove that backups can be restored: a view of the work and its facts, for reading. */
export class BackupVerification extends BaseModel {
  static override tableName = 'backup_verifications';
  static override jsonAttributes = ['details'];
  declare orgId: string;
  declare deviceId: string;
  declare repositoryId: string | null;
  declare configId: string | null;
  declare snapshotId: string | null;
  declare verificationType: 'integrity' | 'test_restore';
  declare status: 'pending' | 'running' | 'passed' | 'failed' | 'partial';
  declare filesVerified: number;
  declare filesFailed: number;
  declare sizeBytes: string;
  declare restoreSeconds: number | null;
  declare details: VerificationDetails;
  declare errorCode: string | null;
  declare errorMessage: string | null;
  declare createdBy: string | null;
  declare startedAt: Date | null;
  declare finishedAt: Date | null;
}

/** Events that are over; those that are open stay. */
export const slaRetention: readonly RetentionRule[] = [
  {
    table: 'backup_sla_events',
    key: ['id'],
    days: 400,
    isOver: (days) => `old.resolved_at < now() - make_interval(days => ${days})`,
    organization: {},
  },
];

/** An SLA: the requirements of an organization for the backups of some devices. */
export class SlaConfig extends BaseModel {
  static override tableName = 'backup_sla_configs';
  static override relationMappings = (): RelationMappings => ({
    organization: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Organization,
      join: { from: 'backup_sla_configs.org_id', to: 'organizations.id' },
    },
  });
  declare orgId: string;
  declare name: string;
  declare rpoTargetMinutes: number;
  declare rtoTargetMinutes: number;
  /** Without devices and groups, all devices of the organization that are backed up are meant. */
  declare targetDevices: string[];
  declare targetGroups: string[];
  declare alertOnBreach: boolean;
  declare isActive: boolean;
  declare createdBy: string | null;
}

export const EVENT_TYPES = ['rpo_breach', 'rto_breach', 'missed_backup'] as const;
export type EventType = (typeof EVENT_TYPES)[number];

/** A time in which a device was not as an SLA expects. It ends by itself. */
export class SlaEvent extends BaseModel {
  static override tableName = 'backup_sla_events';
  static override relationMappings = (): RelationMappings => ({
    device: belongsTo(DeviceModel, 'backup_sla_events', 'device_id'),
    slaConfig: belongsTo(SlaConfig, 'backup_sla_events', 'sla_config_id'),
  });
  static override jsonAttributes = ['details'];
  static override hasUpdatedAt = false;
  declare orgId: string;
  declare slaConfigId: string | null;
  declare deviceId: string;
  declare eventType: EventType;
  declare details: Record<string, unknown>;
  declare detectedAt: Date;
  declare resolvedAt: Date | null;
}
