import { z } from 'zod';
import { Id, nfcText, Timestamp } from '../../../platform/http/fields.ts';
import { PageQuery } from '../../../platform/http/pagination.ts';
import { BackupSchedule, isEverDue } from '../../backup/index.ts';
import { CHECKS_MAX, RecoveryDevice } from './target.schema.ts';

export const PLAN_STATUSES = ['draft', 'active', 'archived'] as const;
export const EXECUTION_TYPES = ['rehearsal', 'failover', 'failback'] as const;
export type ExecutionType = (typeof EXECUTION_TYPES)[number];
export const EXECUTION_STATUSES = ['pending', 'running', 'completed', 'failed', 'aborted'] as const;
export type ExecutionStatus = (typeof EXECUTION_STATUSES)[number];

/** Of a plan. */
export const GROUPS_MAX = 50;
/** Of a plan, in all its groups. */
export const DEVICES_MAX = 200;

const Minutes = z.number().int().min(1).max(525_600);

const Schedule = BackupSchedule.refine(isEverDue, {
  path: ['time'],
  message: 'must name a minute that lies within the window in some hour',
});

const planFields = {
  description: nfcText(2000, 0).nullable().optional(),
  rpoTargetMinutes: Minutes.nullable().optional().describe('How old the restored data may be.'),
  rtoTargetMinutes: Minutes.nullable().optional().describe('How long it may take until everything works.'),
  status: z.enum(PLAN_STATUSES).optional().describe('Default draft. An archived plan is not executed.'),
  rehearsalSchedule: Schedule.nullable()
    .optional()
    .describe('When rehearsals begin by themselves. Default time zone: UTC.'),
};

export const NewRecoveryPlan = z.strictObject({
  orgId: Id.optional().describe('Default: the organization of the caller.'),
  name: nfcText(200),
  ...planFields,
});
export type NewRecoveryPlan = z.infer<typeof NewRecoveryPlan>;

export const RecoveryPlanPatch = z.strictObject({ name: nfcText(200), ...planFields }).partial();
export type RecoveryPlanPatch = z.infer<typeof RecoveryPlanPatch>;

export const RecoveryPlanQuery = PageQuery.extend({
  orgId: Id.optional(),
  status: z.enum(PLAN_STATUSES).optional(),
});
export type RecoveryPlanQuery = z.infer<typeof RecoveryPlanQuery>;

const groupFields = {
  name: nfcText(200),
  sequence: z
    .number()
    .int()
    .min(0)
    .max(10_000)
    .describe('A group begins when all groups of lower numbers are completed. Equal ones run together.'),
  dependsOnGroupId: Id.nullable()
    .optional()
    .describe('It also waits for this group of the plan, whose sequence must not be higher.'),
  devices: z.array(RecoveryDevice).min(1).max(DEVICES_MAX).describe('All at the same time.'),
  estimatedDurationMinutes: Minutes.nullable().optional(),
};

export const NewRecoveryGroup = z.strictObject(groupFields);
export type NewRecoveryGroup = z.infer<typeof NewRecoveryGroup>;

export const RecoveryGroupPatch = NewRecoveryGroup.partial().extend({
  repinScripts: z
    .array(Id)
    .min(1)
    .max(DEVICES_MAX * CHECKS_MAX)
    .optional()
    .describe(
      'Scripts of checks of the group whose newest versions are taken. All other scripts that the group named before keep their versions, also when `devices` names them again. Needs scripts:execute.',
    ),
});
export type RecoveryGroupPatch = z.infer<typeof RecoveryGroupPatch>;

export const GroupParams = z.object({ id: Id, groupId: Id });

const PinnedScript = z
  .object({
    scriptId: z.uuid(),
    scriptName: z
      .string()
      .nullable()
      .describe('The name that it had when its version was kept. Null: there is no version and no script.'),
    scriptSha256: z
      .string()
      .nullable()
      .describe(
        'Of the version that executions run: of its language, timeoutSeconds and content in UTF-8, joined by line feeds. Null: the group was saved before versions were kept; until it is saved again, each execution runs the version of the moment at which it begins.',
      ),
    scriptHasChanged: z
      .boolean()
      .nullable()
      .describe(
        'Since its version was kept. `repinScripts` takes the newest one. Null: there is no version yet, or the script was deleted, and its version still runs.',
      ),
  })
  .meta({ id: 'RecoveryScript' });

export const RecoveryGroup = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    planId: z.uuid(),
    name: z.string(),
    sequence: z.number().int(),
    dependsOnGroupId: z.uuid().nullable(),
    devices: z.array(RecoveryDevice),
    scripts: z.array(PinnedScript).describe('The scripts that the checks name, each once.'),
    estimatedDurationMinutes: z.number().int().nullable(),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  })
  .meta({ id: 'RecoveryGroup' });

export const RecoveryPlan = z
  .object({
    id: z.uuid(),
    orgId: z.uuid(),
    name: z.string(),
    description: z.string().nullable(),
    rpoTargetMinutes: z.number().int().nullable(),
    rtoTargetMinutes: z.number().int().nullable(),
    status: z.enum(PLAN_STATUSES),
    rehearsalSchedule: BackupSchedule.nullable(),
    nextRehearsalAt: Timestamp.nullable(),
    groupCount: z.number().int(),
    deviceCount: z.number().int(),
    failedOverDevices: z
      .number()
      .int()
      .describe('How many sources are replaced by their targets at the moment.'),
    lastExecution: z
      .object({
        id: z.uuid(),
        executionType: z.enum(EXECUTION_TYPES),
        status: z.enum(EXECUTION_STATUSES),
        createdAt: Timestamp,
        finishedAt: Timestamp.nullable(),
      })
      .nullable(),
    lastRehearsal: z
      .object({
        id: z.uuid(),
        status: z.enum(EXECUTION_STATUSES),
        finishedAt: Timestamp,
        rtoSeconds: z.number().nullable(),
        rpoSeconds: z.number().nullable(),
        rtoMet: z.boolean().nullable(),
        rpoMet: z.boolean().nullable(),
      })
      .nullable()
      .describe('The newest one that has ended, and what it has reached.'),
    createdBy: z.uuid().nullable(),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  })
  .meta({ id: 'RecoveryPlan' });

export const RecoveryPlanDetail = RecoveryPlan.extend({
  groups: z.array(RecoveryGroup).describe('By sequence.'),
  failedOver: z
    .array(
      z.object({
        deviceId: z.uuid(),
        deviceName: z.string(),
        targetDeviceId: z.uuid(),
        targetDeviceName: z.string(),
        restoreType: z.enum(['files', 'vm', 'instant']),
        machine: z.string().nullable().describe('Of a guest of the device: which one.'),
        groupId: z.uuid(),
        executionId: z.uuid(),
        since: Timestamp,
      }),
    )
    .describe('Sources that are replaced by their targets until a failback.'),
}).meta({ id: 'RecoveryPlanDetail' });
