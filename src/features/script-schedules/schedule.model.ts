import type { RelationMappings } from 'objection';
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
  /** The fingerprint of the script that the secrets were given to; null without secrets. */
  declare secretsFor: string | null;
  declare nextAt: Date | null;
  declare lastSlotAt: Date | null;
  declare lastSkip: SkipReason | null;
  declare pausedReason: PauseReason | null;
  declare pausedAt: Date | null;
  declare createdBy: string | null;
  /** No columns of the table: selected when a schedule is read to be shown. */
  declare scriptName: string | null;
  declare runsAsName: string | null;
  /** Of the script as it is now. Null without secrets, and if the script cannot be seen. */
  declare scriptFingerprint: string | null;
  declare secrets: ShownSecret[];

  static override relationMappings = (): RelationMappings => ({
    secrets: {
      relation: BaseModel.HasManyRelation,
      modelClass: ScheduleSecret,
      join: {
        from: ['script_schedules.partner_id', 'script_schedules.id'],
        to: ['script_schedule_secrets.partner_id', 'script_schedule_secrets.schedule_id'],
      },
    },
  });
}

/** A secret that a schedule hands to the runs that it starts. */
export class ScheduleSecret extends BaseModel {
  static override tableName = 'script_schedule_secrets';
  static override hasUpdatedAt = false;
  declare scheduleId: string;
  declare partnerId: string;
  declare orgId: string | null;
  declare name: string;
  /** Sealed. */
  declare value: string;
  /** Who has given the value, and therefore knows it. */
  declare setBy: string | null;
  declare setAt: Date;

  static override relationMappings: RelationMappings = {
    schedule: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: ScriptSchedule,
      join: {
        from: ['script_schedule_secrets.partner_id', 'script_schedule_secrets.schedule_id'],
        to: ['script_schedules.partner_id', 'script_schedules.id'],
      },
    },
  };
}

/** What is shown of a secret. */
export type ShownSecret = Pick<ScheduleSecret, 'name' | 'setBy' | 'setAt'>;
