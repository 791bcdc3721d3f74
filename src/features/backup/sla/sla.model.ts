import { BaseModel } from '../../../platform/db/base-model.ts';

/** What an organization expects of the backups of some devices. */
export class SlaConfig extends BaseModel {
  static override tableName = 'backup_sla_configs';
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
