import { BaseModel } from '../../../platform/db/base-model.ts';
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
