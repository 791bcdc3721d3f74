import type { Tx } from '../../../../platform/db/transaction.ts';
import { invalid, AppError } from '../../../../platform/errors.ts';
import { newId } from '../../../../platform/ids.ts';
import type { Jobs } from '../../../../platform/jobs/jobs.ts';
import { newestSnapshots } from '../../../backup/index.ts';
import { completePins, removeUnusedPins } from '../../plans/pinned-scripts.ts';
import { type Mark, marksOf, openExecutionOf } from '../../plans/plan-facts.ts';
import type { ExecutedGroup, PinnedScript, RecoveryPlan } from '../../plans/plan.model.ts';
import type { ExecutionType } from '../../plans/plan.schema.ts';
import { groupsOf } from '../../plans/plan.service.ts';
import { wantedSnapshot } from '../../plans/source-snapshot.ts';
import { machineOf, type RecoveryDevice, sourceKey } from '../../plans/target.schema.ts';
import {
  type ComposedStep,
  composeFailback,
  composeFailover,
  composeRehearsal,
  type Given,
} from '../decisions/compose.ts';
import { RecoveryAction, RecoveryExecution, RecoveryStep } from '../execution.model.ts';
import { enqueueLead } from './lead.ts';

export interface Wanted {
  executionType: ExecutionType;
  trigger: 'manual' | 'schedule';
  note: string | null;
  /** Of a failback of machines: they are backed up where they run, or a person has brought them back. */
  machines: 'save' | 'back' | null;
  createdBy: string | null;
}

/** All of them are looked at in each round. */
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
  const marks = type === 'failover' ? await marksOf(tx, plan) : [];
  const over = new Set(marks.map(({ definition }) => sourceKey(definition)));
  if (type === 'failover' && entries.every(({ entry }) => over.has(sourceKey(entry)))) {
    throw new AppError('conflict', 'All devices of this plan have failed over. Execute a failback first.');
  }
  const devices = await devicesOf(
    tx,
    plan.orgId,
    entries.map(({ entry }) => entry),
  );
  const snapshots = await newestSnapshots(
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
    const given: Given = { entry, deviceName, ...systems, snapshot, scripts };
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
  const marks = await marksOf(tx, plan);
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
    // What is only backed up is not back yet.
    bringsBack: machines === 'save' && isOfMachine(mark) ? null : mark.id,
  }));
  return { groups: [...groups.values()].toSorted((a, b) => a.sequence - b.sequence), steps };
}

const isOfMachine = ({ definition }: Mark): boolean => definition.restore.type !== 'files';

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

async function devicesOf(tx: Tx, orgId: string, entries: readonly RecoveryDevice[]) {
  const ids = entries.flatMap(({ deviceId, targetDeviceId }) =>
    targetDeviceId === undefined ? [deviceId] : [deviceId, targetDeviceId],
  );
  const rows = await tx('devices')
    .where('org_id', orgId)
    .whereIn('id', ids)
    .select<{ id: string; name: string; osType: 'windows' | 'macos' | 'linux' }[]>(
      'id',
      tx.raw(`coalesce(nullif(display_name, ''), hostname) as name`),
      'os_type as osType',
    );
  return new Map(rows.map((row) => [row.id, row]));
}
