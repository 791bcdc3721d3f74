import type { RelationMappings } from 'objection';
import { DeviceModel } from '../devices/index.ts';
import { BaseModel } from '../../platform/db/base-model.ts';
import type { PinnedComponent, AttemptState } from './upgrade.schema.ts';
import type { RetentionRule } from '../../platform/db/retention-rule.ts';
import type { RolloutState, WavePlan } from './rollout.schema.ts';

/** A release on its way to the fleet. Tenants read all rollouts and write none. */
export class AgentRollout extends BaseModel {
  static override tableName = 'agent_rollouts';
  static override jsonAttributes = ['waves'];
  declare component: 'agent' | 'watchdog';
  declare version: string;
  declare state: RolloutState;
  declare waves: WavePlan[];
  /** A decimal, which the driver reads as text. */
  declare failedPercent: string;
  declare silentMinutes: number;
  declare minDevices: number;
  declare firstDevices: string[];
  declare wave: number;
  declare waveOpenedAt: Date;
  declare judgedFrom: Date;
  declare createdBy: string | null;
  declare endedAt: Date | null;
}

export const UPGRADES_KEPT_DAYS = 365;

/** The statement that adds an attempt also removes all but the newest hundred of its device. */
export const upgradeRetention: readonly RetentionRule[] = [
  {
    table: 'device_upgrades',
    key: ['id'],
    days: UPGRADES_KEPT_DAYS,
    isOver: (days) => `old.started_at < now() - make_interval(days => ${days})`,
    organization: {},
  },
];

/** One attempt of a device to install a release, or the request of a person for one. */
export class DeviceUpgrade extends BaseModel {
  static override tableName = 'device_upgrades';
  declare orgId: string;
  declare deviceId: string;
  declare component: PinnedComponent;
  /** As the device names the attempt; the id of the row if it does not. */
  declare attemptId: string;
  declare fromVersion: string | null;
  declare targetVersion: string;
  declare state: AttemptState;
  declare code: string | null;
  declare error: string | null;
  declare rolloutId: string | null;
  declare byHand: boolean;
  /** How many attempts of the device at this version have failed in a row, this one included. */
  declare failures: number;
  /** The version is not offered again before this time. */
  declare retryAt: Date | null;
  declare startedAt: Date;
  declare finishedAt: Date | null;

  static override relationMappings: RelationMappings = {
    device: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: DeviceModel,
      join: {
        from: ['device_upgrades.org_id', 'device_upgrades.device_id'],
        to: ['devices.org_id', 'devices.id'],
      },
    },
    rollout: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: AgentRollout,
      join: { from: 'device_upgrades.rollout_id', to: 'agent_rollouts.id' },
    },
  };
}
