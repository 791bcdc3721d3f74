import { z } from 'zod';
import type { Tx } from '../../platform/db/transaction.ts';
import { invalid, AppError } from '../../platform/errors.ts';
import { newId } from '../../platform/ids.ts';
import { defineJob } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { snapshotReading } from '../backup/index.ts';
import {
  type ComposedStep,
  composeFailback,
  composeFailover,
  composeRehearsal,
  type StepInput,
  wantedSnapshot,
} from './compose-steps.ts';
import {
  type FailedOverSource,
  failedOverSources,
  openExecutionOf,
  devicesOf,
  removeUnusedPins,
} from './disaster-recovery.queries.ts';
import {
  RecoveryAction,
  RecoveryExecution,
  RecoveryStep,
  type ExecutedGroup,
  type PinnedScript,
  type RecoveryPlan,
} from './disaster-recovery.model.ts';
import { completePins, groupsOf } from './plan.service.ts';
import { type ExecutionType, machineOf, sourceKey } from './plan.schema.ts';

export interface Wanted {
  executionType: ExecutionType;
  trigger: 'manual' | 'schedule';
  note: string | null;
  /** For a failback of machines: whether they are backed up where they run, or were already restored manually. */
  machines: 'save' | 'back' | null;
  createdBy: string | null;
}

/** Limit of actions, because each round examines all of them. */
const ACTIONS_MAX = 3000;
const INSERTED_AT_ONCE = 500;

/** Begins an execution of a plan whose row the caller has locked. Throws `AppError`. */
export async function beginExecution(
  tx: Tx,
  plan: RecoveryPlan,
  wanted: Wanted,
  jobs: Jobs,
): Promise<string> {
  if (plan.status === 'archived') {
    throw invalid('body.executionType', 'is not possible: the plan is archived');
  }
  const openId = await openExecutionOf(tx, plan);
  if (openId !== undefined) {
    throw new AppError('conflict', 'An execution of this plan has not ended yet.', {
      details: { executionId: openId },
    });
  }
  await removeUnusedPins(tx, plan);
  const { groups, steps } = await (wanted.executionType === 'failback'
    ? planFailback(tx, plan, wanted)
    : planForward(tx, plan, wanted.executionType));
  if (steps.reduce((sum, step) => sum + step.actions.length, 0) > ACTIONS_MAX) {
    throw invalid(
      'body.executionType',
      `is not possible: the plan needs more than ${ACTIONS_MAX} restores and checks; restore fewer paths in place`,
    );
  }
  const executionId = newId();
  await RecoveryExecution.query(tx).insert({
    id: executionId,
    orgId: plan.orgId,
    planId: plan.id,
    planName: plan.name,
    executionType: wanted.executionType,
    trigger: wanted.trigger,
    note: wanted.note,
    groups,
    rpoTargetMinutes: plan.rpoTargetMinutes,
    rtoTargetMinutes: plan.rtoTargetMinutes,
    stepsTotal: steps.length,
    createdBy: wanted.createdBy,
  });
  const rows = steps.map(({ actions, ...step }, position) => ({
    step: { ...step, id: newId(), orgId: plan.orgId, executionId, position },
    actions,
  }));
  await RecoveryStep.query(tx).insert(rows.map(({ step }) => step));
  const actions = rows.flatMap(({ step, actions: own }) =>
    own.map((action, position) => ({ ...action, orgId: plan.orgId, stepId: step.id, position })),
  );
  for (let at = 0; at < actions.length; at += INSERTED_AT_ONCE) {
    await RecoveryAction.query(tx).insert(actions.slice(at, at + INSERTED_AT_ONCE));
  }
  await enqueueLead(tx, jobs, { id: executionId, orgId: plan.orgId });
  return executionId;
}

type PlannedStep = Pick<
  RecoveryStep,
  | 'groupId'
  | 'deviceId'
  | 'deviceName'
  | 'targetDeviceId'
  | 'targetDeviceName'
  | 'definition'
  | 'snapshotId'
  | 'recoveryPointAt'
  | 'configId'
  | 'places'
  | 'bringsBack'
> &
  Pick<ComposedStep, 'actions'>;

interface Planned {
  groups: ExecutedGroup[];
  steps: PlannedStep[];
}

/** A rehearsal or a failover. */
async function planForward(
  tx: Tx,
  plan: RecoveryPlan,
  type: Exclude<ExecutionType, 'failback'>,
): Promise<Planned> {
  const groups = await groupsOf(tx, plan);
  if (groups.length === 0) throw invalid('body.executionType', 'is not possible: the plan has no groups');
  const pins = await completePins(tx, plan, groups);
  const executed = groups.map((group, at) => executedGroup(group, pins[at] ?? []));
  const entries = groups.flatMap(({ id, devices: own }, at) =>
    own.map((entry) => ({ groupId: id, entry, scripts: pins[at] ?? [] })),
  );
  const marks = type === 'failover' ? await failedOverSources(tx, plan) : [];
  const over = new Set(marks.map(({ definition }) => sourceKey(definition)));
  if (type === 'failover' && entries.every(({ entry }) => over.has(sourceKey(entry)))) {
    throw new AppError('conflict', 'All devices of this plan have failed over. Execute a failback first.');
  }
  const devices = await devicesOf(
    tx,
    plan.orgId,
    entries.map(({ entry }) => entry),
  );
  const snapshots = await snapshotReading.newestSnapshots(
    tx,
    plan.orgId,
    entries.map(({ entry }) => wantedSnapshot(entry)),
  );
  const steps = entries.map(({ groupId, entry, scripts }, index) => {
    const targetDeviceId = entry.targetDeviceId ?? entry.deviceId;
    const [source, target] = [devices.get(entry.deviceId), devices.get(targetDeviceId)];
    const isOver = over.has(sourceKey(entry));
    const snapshot = isOver ? undefined : snapshots[index];
    const deviceName = source?.name ?? GONE;
    const systems = { sourceOs: source?.osType, targetOs: target?.osType };
    const given: StepInput = { entry, deviceName, ...systems, snapshot, scripts };
    const composed = isOver
      ? { actions: [], places: [] }
      : type === 'rehearsal'
        ? composeRehearsal(given)
        : composeFailover(given);
    return {
      ...composed,
      groupId,
      deviceId: entry.deviceId,
      deviceName,
      targetDeviceId,
      targetDeviceName: target?.name ?? GONE,
      definition: entry,
      snapshotId: snapshot?.id ?? null,
      recoveryPointAt: snapshot?.takenAt ?? null,
      configId: snapshot?.configId ?? null,
      bringsBack: null,
    };
  });
  return { groups: executed, steps };
}

const GONE = '(not in the organization any more)';

async function planFailback(tx: Tx, plan: RecoveryPlan, { machines }: Wanted): Promise<Planned> {
  const marks = await failedOverSources(tx, plan);
  if (marks.length === 0) {
    throw invalid('body.executionType', 'is not possible: no device of the plan has failed over');
  }
  const moved = marks.filter(isOfMachine);
  if (moved.length > 0 && machines === null) {
    const names = moved.map(({ deviceName, definition }) => machineOf(definition) ?? deviceName).join(', ');
    throw invalid(
      'body.machinesAreBack',
      `must be true, when these machines were brought back (back them up with saveMachines first): ${names}`,
    );
  }
  const groups = new Map<string, ExecutedGroup>();
  for (const { groupId, group } of marks) groups.set(groupId, group ?? { ...UNKNOWN_GROUP, id: groupId });
  for (const [id, group] of groups) {
    const { dependsOnGroupId } = group;
    if (dependsOnGroupId !== null && !groups.has(dependsOnGroupId)) {
      groups.set(id, { ...group, dependsOnGroupId: null });
    }
  }
  const pins = await completePins(
    tx,
    plan,
    marks.map(({ definition, group }) => ({ devices: [definition], scripts: group?.scripts })),
  );
  const steps = marks.map((mark, at) => ({
    ...composeFailback(mark, machines, pins[at] ?? []),
    groupId: mark.groupId,
    deviceId: mark.deviceId,
    deviceName: mark.deviceName,
    targetDeviceId: mark.targetDeviceId,
    targetDeviceName: mark.targetDeviceName,
    definition: mark.definition,
    snapshotId: null,
    recoveryPointAt: null,
    configId: mark.configId,
    // Data that is only backed up has not been restored yet.
    bringsBack: machines === 'save' && isOfMachine(mark) ? null : mark.id,
  }));
  return { groups: [...groups.values()].toSorted((a, b) => a.sequence - b.sequence), steps };
}

const isOfMachine = ({ definition }: FailedOverSource): boolean => definition.restore.type !== 'files';

const UNKNOWN_GROUP = {
  name: '',
  sequence: 0,
  dependsOnGroupId: null,
  estimatedDurationMinutes: null,
} satisfies Omit<ExecutedGroup, 'id'>;

const executedGroup = (
  { id, name, sequence, dependsOnGroupId, estimatedDurationMinutes }: ExecutedGroup,
  scripts: PinnedScript[],
): ExecutedGroup => ({ id, name, sequence, dependsOnGroupId, estimatedDurationMinutes, scripts });

/**
 * Leads an execution to its end. Its progress is in the tables, so another server can continue it; two servers that
 * lead the same execution take turns by a lock on its row.
 */
const LEADING = {
  input: z.object({ executionId: z.uuid() }),
  result: z.object({}),
  attempts: 1000,
  backOff: { firstMs: 1000, longestMs: 30_000 },
  // Most of the time it only polls.
  concurrency: 50,
  resumes: true,
};
export const LEAD = defineJob({ ...LEADING, name: 'recovery.lead' });
/** The same with its own workers, so that an abort never waits behind executions that take hours. */
export const LEAD_ABORT = defineJob({ ...LEADING, name: 'recovery.lead-abort' });

/** @param again  names a later leader, which is added only once */
export const enqueueLead = (tx: Tx, jobs: Jobs, execution: Led, again?: string): Promise<void> =>
  enqueue(tx, jobs, { job: LEAD, execution, key: again });

export const enqueueAbort = (tx: Tx, jobs: Jobs, execution: Led): Promise<void> =>
  enqueue(tx, jobs, { job: LEAD_ABORT, execution, key: execution.id });

interface Led {
  id: string;
  orgId: string;
}

async function enqueue(
  tx: Tx,
  jobs: Jobs,
  { job, execution: { id, orgId }, key }: { job: typeof LEAD; execution: Led; key: string | undefined },
): Promise<void> {
  const owner = await tx('organizations')
    .where('id', orgId)
    .first<{ partner_id: string } | undefined>('partner_id');
  const partnerId = owner?.partner_id ?? null;
  await jobs.enqueue(tx, job, { executionId: id }, { partnerId, ...omitUndefined({ key }) });
}
