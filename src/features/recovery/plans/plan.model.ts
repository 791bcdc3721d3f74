import { BaseModel } from '../../../platform/db/base-model.ts';
import type { BackupSchedule } from '../../backup/index.ts';
import type { PLAN_STATUSES } from './plan.schema.ts';
import type { RecoveryDevice } from './target.schema.ts';

export class RecoveryPlan extends BaseModel {
  static override tableName = 'dr_plans';
  static override jsonAttributes = ['rehearsalSchedule'];
  declare orgId: string;
  declare name: string;
  declare description: string | null;
  declare rpoTargetMinutes: number | null;
  declare rtoTargetMinutes: number | null;
  declare status: (typeof PLAN_STATUSES)[number];
  declare rehearsalSchedule: BackupSchedule | null;
  declare nextRehearsalAt: Date | null;
  declare createdBy: string | null;
}

/** Which version of a script the checks of a group run. `dr_pinned_scripts` has what it holds. */
export interface PinnedScript {
  scriptId: string;
  /** That it had then. */
  name: string;
  sha256: string;
}

/** Devices of a plan that are restored at the same time. */
export class RecoveryGroup extends BaseModel {
  static override tableName = 'dr_groups';
  static override jsonAttributes = ['devices', 'scripts'];
  declare orgId: string;
  declare planId: string;
  declare name: string;
  declare sequence: number;
  declare dependsOnGroupId: string | null;
  declare devices: RecoveryDevice[];
  /** Of those that its checks name. One that is not listed was chosen before versions were kept. */
  declare scripts: PinnedScript[];
  declare estimatedDurationMinutes: number | null;
}

/** A group as it was when an execution began. */
export interface ExecutedGroup {
  id: string;
  name: string;
  sequence: number;
  dependsOnGroupId: string | null;
  estimatedDurationMinutes: number | null;
  /** Undefined: it began before versions were kept. */
  scripts?: PinnedScript[];
}
