import { BaseModel } from '../../../platform/db/base-model.ts';
import type { ExecutionStatus, ExecutionType } from '../plans/plan.schema.ts';
import type { ExecutedGroup } from '../plans/plan.model.ts';
import type { RecoveryDevice } from '../plans/target.schema.ts';
import type { ActionResult, ActionSpec } from './action-spec.ts';
import type { ActionKind, ActionState, RecoveryReport, StepState } from './execution.schema.ts';

/** One run of a plan. Everything that is known of it is in the database, so any server can go on with it. */
export class RecoveryExecution extends BaseModel {
  static override tableName = 'dr_executions';
  static override jsonAttributes = ['groups', 'report'];
  declare orgId: string;
  declare planId: string | null;
  declare planName: string;
  declare executionType: ExecutionType;
  declare trigger: 'manual' | 'schedule';
  declare status: ExecutionStatus;
  declare note: string | null;
  declare groups: ExecutedGroup[];
  declare rpoTargetMinutes: number | null;
  declare rtoTargetMinutes: number | null;
  declare phase: string | null;
  declare stepsDone: number;
  declare stepsTotal: number;
  declare haltReason: string | null;
  declare report: RecoveryReport | null;
  declare abortRequestedAt: Date | null;
  declare ledAt: Date;
  declare createdBy: string | null;
  declare startedAt: Date | null;
  declare finishedAt: Date | null;
}

/** What is done for one device. */
export class RecoveryStep extends BaseModel {
  static override tableName = 'dr_steps';
  static override hasUpdatedAt = false;
  static override jsonAttributes = ['definition', 'places'];
  declare orgId: string;
  declare executionId: string;
  declare position: number;
  declare groupId: string;
  declare deviceId: string;
  declare deviceName: string;
  declare targetDeviceId: string;
  declare targetDeviceName: string;
  declare definition: RecoveryDevice;
  declare state: StepState;
  declare snapshotId: string | null;
  declare recoveryPointAt: Date | null;
  /** The backup configuration of the data that is restored. */
  declare configId: string | null;
  declare places: { source: string; target: string }[];
  declare failedOverAt: Date | null;
  declare failedBackAt: Date | null;
  declare bringsBack: string | null;
  declare errorCode: string | null;
  declare errorMessage: string | null;
  declare startedAt: Date | null;
  declare readyAt: Date | null;
  declare finishedAt: Date | null;
}

/** Work of a step that a device does in one piece. */
export class RecoveryAction extends BaseModel {
  static override tableName = 'dr_actions';
  static override hasUpdatedAt = false;
  static override jsonAttributes = ['spec', 'result'];
  declare orgId: string;
  declare stepId: string;
  declare position: number;
  declare kind: ActionKind;
  declare phase: 'main' | 'cleanup';
  declare name: string;
  declare state: ActionState;
  declare deviceId: string;
  declare spec: ActionSpec;
  declare undoes: string | null;
  declare restoreId: string | null;
  declare vmRestoreId: string | null;
  declare backupJobId: string | null;
  declare commandId: string | null;
  declare message: string | null;
  declare result: ActionResult | null;
  declare errorCode: string | null;
  declare errorMessage: string | null;
  declare cancelRequestedAt: Date | null;
  declare startedAt: Date | null;
  declare finishedAt: Date | null;
}
