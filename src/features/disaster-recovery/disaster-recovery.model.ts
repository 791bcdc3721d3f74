import type { RelationMappings } from 'objection';
import { BaseModel } from '../../platform/db/base-model.ts';
import type { BackupSchedule } from '../backup/index.ts';
import { Organization } from '../organizations/index.ts';
import type {
  PLAN_STATUSES,
  RecoveryDevice,
  ActionResult,
  ActionSpec,
  ExecutionStatus,
  ExecutionType,
} from './plan.schema.ts';
import type { RetentionRule } from '../../platform/db/retention-rule.ts';
import type { ActionKind, ActionState, RecoveryReport, StepState } from './execution.schema.ts';

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

  static override relationMappings = (): RelationMappings => ({
    organization: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Organization,
      join: { from: 'dr_plans.org_id', to: 'organizations.id' },
    },
    groups: {
      relation: BaseModel.HasManyRelation,
      modelClass: RecoveryGroup,
      join: { from: ['dr_plans.org_id', 'dr_plans.id'], to: ['dr_groups.org_id', 'dr_groups.plan_id'] },
    },
  });
}

/** The version of a script that the checks of a group run. Its content is in `dr_pinned_scripts`. */
export interface PinnedScript {
  scriptId: string;
  /** The name of the script at that time. */
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
  /** The scripts of its checks. A script that is not listed was chosen before versions were kept. */
  declare scripts: PinnedScript[];
  declare estimatedDurationMinutes: number | null;

  static override relationMappings: RelationMappings = {
    plan: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: RecoveryPlan,
      join: { from: ['dr_groups.org_id', 'dr_groups.plan_id'], to: ['dr_plans.org_id', 'dr_plans.id'] },
    },
  };
}

/** A group as it was when an execution began. */
export interface ExecutedGroup {
  id: string;
  name: string;
  sequence: number;
  dependsOnGroupId: string | null;
  estimatedDurationMinutes: number | null;
  /** Undefined if the execution began before versions were kept. */
  scripts?: PinnedScript[];
}

/** One run of a plan. Its whole state is in the database, so any server can continue it. */
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

  static override relationMappings = (): RelationMappings => ({
    organization: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: Organization,
      join: { from: 'dr_executions.org_id', to: 'organizations.id' },
    },
    plan: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: RecoveryPlan,
      join: {
        from: ['dr_executions.org_id', 'dr_executions.plan_id'],
        to: ['dr_plans.org_id', 'dr_plans.id'],
      },
    },
    steps: {
      relation: BaseModel.HasManyRelation,
      modelClass: RecoveryStep,
      join: {
        from: ['dr_executions.org_id', 'dr_executions.id'],
        to: ['dr_steps.org_id', 'dr_steps.execution_id'],
      },
    },
  });
}

/** The work for one device. */
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

  static override relationMappings = (): RelationMappings => ({
    execution: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: RecoveryExecution,
      join: {
        from: ['dr_steps.org_id', 'dr_steps.execution_id'],
        to: ['dr_executions.org_id', 'dr_executions.id'],
      },
    },
    actions: {
      relation: BaseModel.HasManyRelation,
      modelClass: RecoveryAction,
      join: { from: ['dr_steps.org_id', 'dr_steps.id'], to: ['dr_actions.org_id', 'dr_actions.step_id'] },
    },
  });
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

  static override relationMappings: RelationMappings = {
    step: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: RecoveryStep,
      join: { from: ['dr_actions.org_id', 'dr_actions.step_id'], to: ['dr_steps.org_id', 'dr_steps.id'] },
    },
  };
}

/** Auditors ask for the rehearsals of more than a year. */
const DAYS = 800;

export const executionRetention: readonly RetentionRule[] = [
  {
    table: 'dr_executions',
    key: ['id'],
    days: DAYS,
    // A failover is kept as long as its sources are replaced, because its failback needs it.
    isOver: (days) => `old.finished_at < now() - make_interval(days => ${days}) and not exists (
      select from dr_steps s where s.org_id = old.org_id and s.execution_id = old.id
        and s.failed_over_at is not null and s.failed_back_at is null)`,
    organization: {},
    atOnce: 100,
  },
];
