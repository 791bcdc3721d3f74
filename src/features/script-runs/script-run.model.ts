import type { RetentionRule } from '../../platform/db/retention-rule.ts';
import { BaseModel } from '../../platform/db/base-model.ts';
import type { OsType, SavedScriptLanguage } from '../../protocol/index.ts';
import type { DeviceTarget } from '../device-targets/index.ts';
import type { RunState } from './script-run.schema.ts';

/** The version of a script that a run runs, whatever becomes of the script. */
export interface ScriptVersion {
  scriptId: string | null;
  /** Null: of the partner. */
  scriptOrgId: string | null;
  scriptName: string;
  language: SavedScriptLanguage;
  content: string;
  osTypes: OsType[];
  timeoutSeconds: number;
  /** The SHA-256 of what a device runs. */
  version: string;
}

/** One request to run one version of a script on devices. */
export class ScriptRun extends BaseModel implements ScriptVersion {
  static override tableName = 'script_runs';
  static override hasUpdatedAt = false;
  static override jsonAttributes = ['parameters', 'target'];
  declare scriptId: string | null;
  declare scriptOrgId: string | null;
  declare scriptName: string;
  declare language: SavedScriptLanguage;
  declare content: string;
  declare osTypes: OsType[];
  declare timeoutSeconds: number;
  declare version: string;
  declare partnerId: string;
  /** The organizations of its devices when it was started. */
  declare orgIds: string[];
  declare parameters: Record<string, string>;
  declare secretNames: string[];
  /** Null of a repetition. */
  declare target: DeviceTarget | null;
  declare againOf: string | null;
  /** The schedule that has started it, and the time of it for which it was made. */
  declare scheduleId: string | null;
  declare slotAt: Date | null;
  declare createdBy: string | null;
  declare expiresAt: Date;
  /** When all of its commands were in the ledger. */
  declare startedAt: Date | null;
  declare cancelRequestedAt: Date | null;
  declare error: string | null;
  /** No columns of the table: selected when a run is read to be shown. */
  declare state: RunState;
  declare createdByName: string | null;
  /** Those of its organizations that the caller can access. */
  declare visibleOrgIds: string[];
}

/** A run whose devices were all refused has no command that could keep it. */
const WITHOUT_COMMANDS_DAYS = 30;

/** A run is kept as long as one of its commands, for which each organization chooses a time. */
export const scriptRunRetention: readonly RetentionRule[] = [
  {
    table: 'script_runs',
    key: ['id'],
    days: WITHOUT_COMMANDS_DAYS,
    isOver: (days) => `old.created_at < now() - make_interval(days => ${days}) and not exists (
      select from script_run_devices d where d.run_id = old.id and d.command_id is not null)`,
    atOnce: 100,
  },
];
