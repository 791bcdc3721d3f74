import { BaseModel } from '../../platform/db/base-model.ts';
import type { DeviceTarget } from '../device-targets/index.ts';
import type { PauseReason, SkipReason } from './schedule.schema.ts';

/** When a script runs on which devices by itself, of an organization or of a partner for all of its organizations. */
export class ScriptSchedule extends BaseModel {
  static override tableName = 'script_schedules';
  static override jsonAttributes = ['target', 'parameters'];
  declare partnerId: string;
  /** Null if it belongs to the partner. */
  declare orgId: string | null;
  declare name: string;
  declare scriptId: string | null;
  declare enabled: boolean;
  declare cron: string;
  declare timezone: string;
  declare target: DeviceTarget;
  declare parameters: Record<string, string>;
  declare catchUpMinutes: number;
  /** The person by whose rights it runs. */
  declare runsAs: string | null;
  declare nextAt: Date | null;
  declare lastSlotAt: Date | null;
  declare lastSkip: SkipReason | null;
  declare pausedReason: PauseReason | null;
  declare pausedAt: Date | null;
  declare createdBy: string | null;
  /** No columns of the table: selected when a schedule is read to be shown. */
  declare scriptName: string | null;
  declare runsAsName: string | null;
}
