import type { RelationMappings } from 'objection';
import { BaseModel } from '../../platform/db/base-model.ts';
import type { CommandProgress, CommandStatus } from '../../protocol/index.ts';
import { DevicePresence } from '../devices/index.ts';
import { Organization } from '../organizations/index.ts';
import type { RetentionRule } from '../../platform/db/retention-rule.ts';
import { chosenDays, DEFAULT_COMMAND_DAYS } from '../log-retention/index.ts';

/** A step of a command; written by a trigger of the database. */
export class CommandTransition extends BaseModel {
  static override tableName = 'command_transitions';
  static override idColumn = ['command_id', 'seq'];
  static override hasUpdatedAt = false;
  static override hasOwnId = false;
  declare commandId: string;
  declare orgId: string;
  declare seq: string;
  declare fromStatus: CommandStatus | null;
  declare toStatus: CommandStatus;
  declare reason: string | null;
  declare attempt: number;
  declare at: Date;
}

export class Command extends BaseModel {
  static override tableName = 'commands';
  static override hasUpdatedAt = false;
  static override jsonAttributes = ['payload', 'progress', 'output', 'error', 'lateResult'];
  declare orgId: string;
  declare deviceId: string;
  declare type: string;
  declare payload: unknown;
  declare status: CommandStatus;
  declare reason: string | null;
  declare createdBy: string | null;
  declare attempt: number;
  declare cancelRequestedAt: Date | null;
  declare progress: Omit<CommandProgress, 'id' | 'seq'> | null;
  declare output: unknown;
  declare error: { code: string; message: string } | null;
  declare lateResult: unknown;
  declare expiresAt: Date;
  declare startedAt: Date | null;
  declare finishedAt: Date | null;
  declare executionId: string | null;
  declare scriptId: string | null;
  declare transitions?: CommandTransition[];
  /** No columns of the table: selected when a command is read to be shown. */
  declare partnerId: string;
  declare isConnected: boolean;
  declare scriptName: string | null;

  static override relationMappings: RelationMappings = {
    transitions: {
      relation: BaseModel.HasManyRelation,
      modelClass: CommandTransition,
      join: {
        from: ['commands.org_id', 'commands.id'],
        to: ['command_transitions.org_id', 'command_transitions.command_id'],
      },
    },
    organization: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Organization,
      join: { from: 'commands.org_id', to: 'organizations.id' },
    },
    presence: {
      relation: BaseModel.HasOneRelation,
      modelClass: DevicePresence,
      join: {
        from: ['commands.org_id', 'commands.device_id'],
        to: ['device_presence.org_id', 'device_presence.device_id'],
      },
    },
  };
}

/** Their payload and output may hold secrets that should not be found years later. Each takes its transitions along. */
export const commandRetention: readonly RetentionRule[] = [
  {
    table: 'commands',
    key: ['id'],
    days: DEFAULT_COMMAND_DAYS,
    isOver: (days) => `old.finished_at < now() - make_interval(days => ${days})`,
    organization: { chosenDays: chosenDays('command_days') },
    atOnce: 1000,
  },
];
