import type { RelationMappings } from 'objection';
import { BaseModel } from '../../platform/db/base-model.ts';
import type { Presence } from '../../protocol/index.ts';
import { Organization } from '../organizations/index.ts';
import type { Device as DeviceAnswer } from './device.schema.ts';
import type { RetentionRule } from '../../platform/db/retention-rule.ts';

/** The decision of a person or a process about a device; `normal` if there is none. */
export type DeviceCondition =
  | 'normal'
  | 'maintenance'
  | 'updating'
  | 'pending'
  | 'quarantined'
  | 'decommissioned';

/** The connection of a device and its newest figures. Written in batches by `presence/presence-writes.ts` alone. */
export class DevicePresence extends BaseModel {
  static override tableName = 'device_presence';
  static override idColumn = 'device_id';
  static override hasOwnId = false;
  static override hasUpdatedAt = false;
  declare deviceId: string;
  declare orgId: string;
  declare state: Presence['state'];
  declare since: Date;
  declare reason: Presence['reason'];
  declare lastSeenAt: Date | null;
  declare reportsUntil: Date | null;
}

/** A device as it is stored. Answers are made by `device.queries.ts`, which reads the presence beside it. */
export class Device extends BaseModel {
  static override tableName = 'devices';
  static override jsonAttributes = ['customFields', 'hardware', 'network'];
  declare orgId: string;
  declare siteId: string;
  declare hostname: string;
  declare displayName: string | null;
  declare condition: DeviceCondition;
  declare decommissionedFrom: DeviceCondition | null;
  /** Set and cleared by a trigger. */
  declare decommissionedAt: Date | null;
  declare maintenanceUntil: Date | null;
  declare osType: DeviceAnswer['osType'];
  declare osVersion: string;
  declare osBuild: string | null;
  declare architecture: DeviceAnswer['architecture'];
  declare agentVersion: string;
  declare watchdogVersion: string | null;
  declare machineId: string | null;
  /** The machine id with which it was enrolled while a connected device had it. */
  declare claimedMachineId: string | null;
  declare tags: string[];
  declare customFields: Record<string, unknown>;
  declare hardware: DeviceAnswer['hardware'];
  declare network: DeviceAnswer['network'];
  declare capabilities: string[];
  declare autoUpdate: boolean;
  declare lastUser: string | null;
  declare enrolledAt: Date;

  static override relationMappings: RelationMappings = {
    organization: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Organization,
      join: { from: 'devices.org_id', to: 'organizations.id' },
    },
    presence: {
      relation: BaseModel.HasOneRelation,
      modelClass: DevicePresence,
      join: {
        from: ['devices.org_id', 'devices.id'],
        to: ['device_presence.org_id', 'device_presence.device_id'],
      },
    },
  };
}

/** A token of a device's agent, by its hash. */
export class AgentCredential extends BaseModel {
  static override tableName = 'agent_credentials';
  static override idColumn = 'token_hash';
  static override hasOwnId = false;
  static override hasUpdatedAt = false;
  declare tokenHash: string;
  declare deviceId: string;
  declare orgId: string;
  declare staged: boolean;
  /** The id that the agent uses in paths, if its machine has replaced another one. */
  declare enrolledAs: string | null;
  declare revokedAt: Date | null;
}

const REVOKED_DAYS = 30;

export const deviceRetention: readonly RetentionRule[] = [
  {
    table: 'agent_credentials',
    key: ['token_hash'],
    days: REVOKED_DAYS,
    isOver: (days) => `old.revoked_at < now() - make_interval(days => ${days})`,
    organization: {},
  },
];
