import type { RelationMappings } from 'objection';
import { BaseModel } from '../../platform/db/base-model.ts';
import type { RetentionRule } from '../../platform/db/retention-rule.ts';
import type { TerminalEnd } from '../../protocol/index.ts';
import { DeviceModel } from '../devices/index.ts';
import { User } from '../users/index.ts';

/** Whether an organization allows terminals. Without a row it does not. */
export class TerminalSetting extends BaseModel {
  static override tableName = 'terminal_settings';
  static override idColumn = 'org_id';
  static override hasOwnId = false;
  declare orgId: string;
  declare enabled: boolean;
}

/** A terminal that was opened, and its recording. */
export class TerminalModel extends BaseModel {
  static override tableName = 'terminals';
  static override hasUpdatedAt = false;
  declare orgId: string;
  declare deviceId: string;
  /** The organization of the device when it was opened. */
  declare openedIn: string;
  declare userId: string | null;
  declare userName: string;
  declare userEmail: string;
  declare resumeTokenHash: string;
  declare cols: number;
  declare rows: number;
  declare sealedKey: string;
  declare openedAt: Date;
  declare seenAt: Date;
  declare endedAt: Date | null;
  declare endReason: TerminalEnd | null;
  declare exitCode: number | null;
  /** A bigint, which the driver returns as text. */
  declare recordedTo: string;
  declare partCount: number;
  declare storedBytes: string;

  static override relationMappings: RelationMappings = {
    device: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: DeviceModel,
      join: { from: ['terminals.org_id', 'terminals.device_id'], to: ['devices.org_id', 'devices.id'] },
    },
    user: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: User,
      join: { from: 'terminals.user_id', to: 'users.id' },
    },
  };
}

/** A part of a recording. */
export class TerminalPart extends BaseModel {
  static override tableName = 'terminal_parts';
  static override idColumn = ['terminal_id', 'seq'];
  static override hasOwnId = false;
  static override hasUpdatedAt = false;
  declare terminalId: string;
  declare orgId: string;
  declare seq: number;
  declare content: Buffer;

  static override relationMappings: RelationMappings = {
    terminal: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: TerminalModel,
      join: {
        from: ['terminal_parts.org_id', 'terminal_parts.terminal_id'],
        to: ['terminals.org_id', 'terminals.id'],
      },
    },
  };
}

export const SEALED_TERMINAL_KEY = { table: 'terminals', column: 'sealed_key', id: 'id' } as const;

const KEPT_DAYS = 90;

export const terminalRetention: readonly RetentionRule[] = [
  {
    table: 'terminals',
    key: ['id'],
    days: KEPT_DAYS,
    isOver: (days) => `old.opened_at < now() - make_interval(days => ${days})`,
    organization: {},
    // The parts of a recording go with it.
    atOnce: 50,
  },
];
