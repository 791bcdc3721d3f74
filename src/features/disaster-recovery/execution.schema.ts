import { z } from 'zod';
import { Id, text, Timestamp } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';
import { EXECUTION_STATUSES, EXECUTION_TYPES } from './plan.schema.ts';

export const STEP_STATES = [
  'waiting',
  'running',
  'checking',
  'completed',
  'failed',
  'skipped',
  'aborted',
] as const;
export type StepState = (typeof STEP_STATES)[number];

export const ACTION_KINDS = ['restore', 'backup', 'check', 'discard'] as const;
export type ActionKind = (typeof ACTION_KINDS)[number];
export const ACTION_STATES = ['waiting', 'running', 'succeeded', 'failed', 'cancelled', 'skipped'] as const;
export type ActionState = (typeof ACTION_STATES)[number];

export const GROUP_STATES = ['waiting', 'running', 'completed', 'failed', 'skipped', 'aborted'] as const;

export const ExecutePlan = z.strictObject({
  executionType: z.enum(EXECUTION_TYPES),
  note: text(500).optional().describe('The reason, for the audit log and the report.'),
  machinesAreBack: z
    .boolean()
    .optional()
    .describe('For a failback of machines: they were already restored manually, so their marks are cleared.'),
  saveMachines: z
    .boolean()
    .optional()
    .describe(
      'For a failback of machines: they are shut down on their hosts and backed up as they are. Their marks stay until they are restored from these snapshots manually and a failback says `machinesAreBack`. Muster does not write to the disks of running systems.',
    ),
});
export type ExecutePlan = z.infer<typeof ExecutePlan>;

export const ExecutionQuery = PageQuery.extend({
  orgId: Id.optional(),
  planId: Id.optional(),
  executionType: z.enum(EXECUTION_TYPES).optional(),
  status: z.enum(EXECUTION_STATUSES).optional(),
});
export type ExecutionQuery = z.infer<typeof ExecutionQuery>;

const Failure = z.object({ code: z.string(), message: z.string() });

export const RecoveryAction = z
  .object({
    id: z.uuid(),
    kind: z
      .enum(ACTION_KINDS)
      .describe(
        '`backup`: of a failback, of the data that is brought back. `discard`: takes down what a `restore` has made.',
      ),
    name: z.string().describe('The action as text for people.'),
    state: z.enum(ACTION_STATES),
    deviceId: z.uuid().describe('The device that does it.'),
    restoreId: z.uuid().nullable().describe('GET /backup/restore/:id shows its progress.'),
    vmRestoreId: z.uuid().nullable().describe('GET /backup/restore/vm/:id shows its progress.'),
    backupJobId: z.uuid().nullable().describe('GET /backup/jobs/:id shows its progress.'),
    commandId: z.uuid().nullable(),
    scriptSha256: z
      .string()
      .nullable()
      .describe('For a check by a script: the version that it runs, as the group of the plan shows it.'),
    message: z.string().nullable().describe('The result, such as that of a check.'),
    error: Failure.nullable(),
    startedAt: Timestamp.nullable(),
    finishedAt: Timestamp.nullable(),
  })
  .meta({ id: 'RecoveryAction' });

export const RecoveryStep = z
  .object({
    id: z.uuid(),
    groupId: z.uuid(),
    deviceId: z.uuid(),
    deviceName: z.string(),
    targetDeviceId: z.uuid(),
    targetDeviceName: z.string(),
    restoreType: z.enum(['files', 'vm', 'instant']),
    machine: z
      .string()
      .nullable()
      .describe('The guest of the device that is restored, as the plan names it.'),
    state: z.enum(STEP_STATES),
    cleanup: z
      .enum(['none', 'pending', 'running', 'completed', 'failed'])
      .describe('The state of the cleanup of resources that the step has started for the execution.'),
    snapshotId: z
      .uuid()
      .nullable()
      .describe('The restored snapshot; null: there was none, or the data is backed up first.'),
    recoveryPointAt: Timestamp.nullable().describe('When the restored data was backed up.'),
    rpoSeconds: z.number().int().nullable().describe('How old the data was when the execution began.'),
    rtoSeconds: z.number().int().nullable().describe('From the beginning of the execution until it worked.'),
    failedOverAt: Timestamp.nullable(),
    failedBackAt: Timestamp.nullable(),
    actions: z.array(RecoveryAction).describe('In order of execution.'),
    error: Failure.nullable(),
    startedAt: Timestamp.nullable(),
    readyAt: Timestamp.nullable().describe('When everything was restored and all checks had passed.'),
    finishedAt: Timestamp.nullable(),
  })
  .meta({ id: 'RecoveryStep' });

export const RecoveryReport = z
  .object({
    rtoSeconds: z.number().int().nullable().describe('Until the last device worked; null: not all did.'),
    rpoSeconds: z
      .number()
      .int()
      .nullable()
      .describe('The age of the oldest data; null: there was none, or a failback.'),
    rtoTargetMinutes: z.number().int().nullable(),
    rpoTargetMinutes: z.number().int().nullable(),
    rtoMet: z.boolean().nullable().describe('Null: no target, or nothing to compare with it.'),
    rpoMet: z.boolean().nullable(),
    abortSeconds: z
      .number()
      .nullable()
      .describe('From the abort until everything had stopped and was cleaned up.'),
    leftovers: z
      .number()
      .int()
      .describe(
        'What could not be taken down yet, because its device is away. It is, when the device returns.',
      ),
  })
  .meta({ id: 'RecoveryReport' });
export type RecoveryReport = z.infer<typeof RecoveryReport>;

export const RecoveryExecution = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    planId: z.uuid().nullable().describe('Null: the plan was deleted.'),
    planName: z.string(),
    executionType: z.enum(EXECUTION_TYPES),
    trigger: z.enum(['manual', 'schedule']),
    status: z.enum(EXECUTION_STATUSES),
    note: z.string().nullable(),
    activeGroupId: z.uuid().nullable().describe('The first group that is being worked on.'),
    stepCounts: z.record(z.enum(STEP_STATES), z.number().int()),
    haltReason: z.string().nullable().describe('Why it did not complete.'),
    report: RecoveryReport.nullable().describe('Null until it has ended.'),
    abortRequestedAt: Timestamp.nullable(),
    createdBy: z.uuid().nullable(),
    createdAt: Timestamp,
    startedAt: Timestamp.nullable(),
    finishedAt: Timestamp.nullable(),
  })
  .meta({ id: 'RecoveryExecution' });

export const RecoveryExecutionDetail = RecoveryExecution.extend({
  groups: z
    .array(
      z.object({
        id: z.uuid(),
        name: z.string(),
        sequence: z.number().int(),
        dependsOnGroupId: z.uuid().nullable(),
        estimatedDurationMinutes: z.number().int().nullable(),
        status: z.enum(GROUP_STATES),
        startedAt: Timestamp.nullable(),
        finishedAt: Timestamp.nullable(),
        steps: z.array(RecoveryStep),
      }),
    )
    .describe('As they were when the execution began, by sequence.'),
}).meta({ id: 'RecoveryExecutionDetail' });
