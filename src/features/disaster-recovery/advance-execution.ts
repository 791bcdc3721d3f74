import { groupedBy } from '../../platform/grouped-by.ts';
import { clock } from '../../clock.ts';
import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSavepoint, withSystem } from '../../platform/db/transaction.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import type { Logger } from '../../platform/logger.ts';
import { WorkRefused, type RepositoryReaders, recoveryActions } from '../backup/index.ts';
import { readGuest, cancelMachineRestore } from '../machine-recovery/index.ts';
import { type AddedCommand, announceCommands, cancelServerCommand } from '../commands/index.ts';
import { type Decision, decide, type ExecutionNow, reportOf } from './decide.ts';
import { type DeviceNow, devicesNow } from './disaster-recovery.queries.ts';
import { RecoveryAction, RecoveryExecution, RecoveryStep } from './disaster-recovery.model.ts';
import type { StepState } from './execution.schema.ts';
import { asNow, badEnd, endedActions, startAction, type StartParts } from './actions.ts';
import { followRecoveryAlert } from './plan.service.ts';
import { shortened } from '../../protocol/index.ts';

export interface AdvanceParts extends StartParts, ReadingParts {
  audit: AuditTrail;
}

/** `moved`: more may be possible at once. `still`: nothing to do but wait. */
export type Advance = 'moved' | 'still' | 'ended';

/** One transaction, which holds the row of the execution, assigns at most this much work. */
const STARTS_AT_ONCE = 20;
const LED_EVERY_MS = 20_000;

/**
 * One round of an execution: records ended work, decides the next steps, and starts them. It is one transaction that
 * waits for no device, so a server that dies during it has changed nothing. Devices are notified after the commit, or
 * by the command ledger if the server dies before that.
 */
export async function advance(
  parts: AdvanceParts,
  executionId: string,
  signal: AbortSignal,
): Promise<Advance> {
  const notices: Notices = { commands: [], announce: [], unread: [] };
  const advanced = await withSystem(parts.db, 'go on with the execution of a recovery plan', (tx) =>
    round(tx, parts, executionId, notices),
  );
  for (const announce of notices.announce) announce();
  if (notices.commands.length > 0) announceCommands(parts.hub, notices.commands);
  const [unread] = notices.unread;
  if (unread === undefined) return advanced;
  // One at a time, so that ready actions are assigned in between.
  await readGuestOf(parts, unread, signal);
  return 'moved';
}

/** Notifications for devices and dashboards after the commit. */
interface Notices {
  commands: AddedCommand[];
  announce: (() => void)[];
  /** Actions for a guest whose description is not read yet. */
  unread: RecoveryAction[];
}

async function round(tx: Tx, parts: AdvanceParts, executionId: string, notices: Notices): Promise<Advance> {
  const execution = await RecoveryExecution.query(tx).findById(executionId).forNoKeyUpdate().skipLocked();
  if (execution === undefined) return (await exists(tx, executionId)) ? 'still' : 'ended';
  if (execution.finishedAt !== null) return 'ended';
  const state = await load(tx, execution);
  const now = clock.date();
  await noteEnds(tx, state.actions);
  const decision = decide(nowOf(execution, state, now));
  await applySkips(tx, state, decision);
  await cancelActions(tx, state, decision, { parts, notices });
  const started = await startActions(tx, { execution, state, decision, parts, notices });
  await applySteps(tx, execution, state, decision, now);
  if (decision.end !== undefined) {
    await endExecution(tx, { execution, ...state, status: decision.end, now });
    const more = { status: decision.end };
    await recordBySystem(tx, parts, { action: 'recovery.end', execution, more });
    notices.announce.push(() => parts.audit.committed());
    return 'ended';
  }
  const hasMoved = started > 0 || decision.steps.length > 0 || decision.giveUp.length > 0;
  await noteRound(tx, execution, state, now);
  return hasMoved ? 'moved' : 'still';
}

const exists = async (tx: Tx, id: string) =>
  (await RecoveryExecution.query(tx).findById(id).whereNull('finished_at').select('id')) !== undefined;

interface State {
  steps: RecoveryStep[];
  actions: RecoveryAction[];
  devices: Map<string, DeviceNow>;
}

async function load(tx: Tx, { id, orgId }: RecoveryExecution): Promise<State> {
  const steps = await RecoveryStep.query(tx).where({ org_id: orgId, execution_id: id }).orderBy('position');
  const actions = await RecoveryAction.query(tx)
    .where('org_id', orgId)
    .whereIn(
      'step_id',
      steps.map((step) => step.id),
    )
    .orderBy(['step_id', 'position']);
  const devices = await devicesNow(tx, orgId, [...new Set(actions.map(({ deviceId }) => deviceId))]);
  return { steps, actions, devices };
}

/** Changes the rows and the objects that represent them. */
async function change(tx: Tx, action: RecoveryAction, changes: Partial<RecoveryAction>): Promise<void> {
  await RecoveryAction.query(tx).findById(action.id).patch(changes);
  Object.assign(action, changes);
}

async function noteEnds(tx: Tx, actions: readonly RecoveryAction[]): Promise<void> {
  const ends = await endedActions(tx, actions);
  for (const action of actions) {
    const end = ends.get(action.id);
    if (end !== undefined) await change(tx, action, end);
  }
}

function nowOf(execution: RecoveryExecution, { steps, actions, devices }: State, now: Date): ExecutionNow {
  const ofStep = groupedBy(actions, ({ stepId }) => stepId);
  const ofGroup = groupedBy(steps, ({ groupId }) => groupId);
  return {
    type: execution.executionType,
    isAborting: execution.abortRequestedAt !== null,
    groups: execution.groups.map(({ id, sequence, dependsOnGroupId }) => ({
      id,
      sequence,
      dependsOnGroupId,
      steps: (ofGroup.get(id) ?? []).map((step) => ({
        id: step.id,
        state: step.state,
        restoreType: step.definition.restore.type,
        actions: (ofStep.get(step.id) ?? []).map((action) =>
          asNow(action, devices.get(action.deviceId), now),
        ),
      })),
    })),
  };
}

async function applySkips(tx: Tx, { actions }: State, { skip }: Decision): Promise<void> {
  if (skip.length === 0) return;
  const skipped = { state: 'skipped', finishedAt: clock.date() } as const;
  await RecoveryAction.query(tx).whereIn('id', skip).patch(skipped);
  const ids = new Set(skip);
  for (const action of actions) if (ids.has(action.id)) Object.assign(action, skipped);
}

async function cancelActions(
  tx: Tx,
  { actions }: State,
  { cancel, giveUp }: Decision,
  { parts, notices }: { parts: AdvanceParts; notices: Notices },
): Promise<void> {
  const byId = new Map(actions.map((action) => [action.id, action]));
  for (const id of cancel) {
    const action = byId.get(id);
    const announce = action === undefined ? undefined : await cancelOne(tx, action, parts);
    if (action === undefined || announce === undefined) continue;
    notices.announce.push(announce);
    await change(tx, action, { cancelRequestedAt: clock.date() });
  }
  for (const id of giveUp) {
    const action = byId.get(id);
    if (action === undefined) continue;
    const { cancelRequestedAt } = action;
    const message = 'The device is not connected, or does not react.';
    await change(tx, action, {
      ...badEnd('failed', 'DEVICE_OFFLINE', message),
      cancelRequestedAt: cancelRequestedAt ?? clock.date(),
    });
  }
}

async function cancelOne(
  tx: Tx,
  { restoreId, vmRestoreId, backupJobId, commandId }: RecoveryAction,
  { hub, work }: Pick<AdvanceParts, 'hub' | 'work'>,
): Promise<(() => void) | undefined> {
  if (restoreId !== null) return recoveryActions.cancelFileRestore(tx, restoreId, hub);
  if (vmRestoreId !== null) return cancelMachineRestore(tx, vmRestoreId, hub);
  if (backupJobId !== null) return recoveryActions.cancelBackup(tx, backupJobId, work);
  return commandId === null ? () => {} : (await cancelServerCommand(tx, commandId, hub)).announce;
}

interface Starts {
  execution: RecoveryExecution;
  state: State;
  decision: Decision;
  parts: AdvanceParts;
  notices: Notices;
}

/** @returns  how many actions were assigned or refused */
async function startActions(tx: Tx, { execution, state, decision, parts, notices }: Starts): Promise<number> {
  const byId = new Map(state.actions.map((action) => [action.id, action]));
  const ofStep = groupedBy(state.actions, ({ stepId }) => stepId);
  let moved = 0;
  for (const id of decision.start.slice(0, STARTS_AT_ONCE)) {
    const action = byId.get(id);
    if (action === undefined) continue;
    const device = state.devices.get(action.deviceId);
    const siblings = ofStep.get(action.stepId) ?? [];
    const startedAt = clock.date();
    try {
      // An action that fails half way is rolled back, and does not stop the others.
      const started = await withSavepoint(tx, (inner) =>
        startAction(inner, { execution, action, siblings, device }, parts),
      );
      if (started === 'unread') notices.unread.push(action);
      if (typeof started === 'string') continue;
      if (started.command !== undefined) notices.commands.push(started.command);
      await change(tx, action, { state: 'running', startedAt, ...started.changes });
    } catch (error) {
      const isRefused = error instanceof WorkRefused;
      if (!isRefused) parts.log.error({ err: error, recoveryActionId: id }, 'recovery.start_failed');
      const [code, message] = isRefused
        ? [error.code, error.message]
        : ['INTERNAL', 'Something failed on the server.'];
      await change(tx, action, { startedAt, ...badEnd('failed', code, message) });
    }
    moved += 1;
  }
  return moved;
}

interface ReadingParts {
  db: Db;
  log: Logger;
  backupStore: { readers: RepositoryReaders };
}

/** Opening a repository reads its index. */
const READING_MS = 60_000;

/**
 * Reads the description of an action's guest from the store and records it in the action, which the next round then
 * starts. It holds no lock, so an abort does not wait for it: an action that was skipped meanwhile stays skipped.
 */
async function readGuestOf(
  { db, log, backupStore }: ReadingParts,
  { id, orgId, spec }: RecoveryAction,
  signal: AbortSignal,
): Promise<void> {
  if (spec.does !== 'machine' || spec.snapshotId === null || spec.machineId === null) return;
  const wanted = { snapshotId: spec.snapshotId, orgId, machine: spec.machineId };
  const inTime = AbortSignal.any([signal, clock.timeoutSignal(READING_MS)]);
  let changes: Partial<RecoveryAction>;
  try {
    changes = { spec: { ...spec, guest: await readGuest(db, wanted, backupStore.readers, inTime) } };
  } catch (error) {
    signal.throwIfAborted();
    const isRefused = error instanceof WorkRefused;
    if (!isRefused) log.error({ err: error, recoveryActionId: id }, 'recovery.guest_not_read');
    const [code, message] = isRefused
      ? [error.code, error.message]
      : ['SNAPSHOT_UNREADABLE', 'The guest in the snapshot could not be read from the store.'];
    changes = { startedAt: clock.date(), ...badEnd('failed', code, message) };
  }
  await withSystem(db, 'note what the store says of a guest that a recovery plan restores', async (tx) => {
    await RecoveryAction.query(tx).findById(id).where('state', 'waiting').patch(changes);
  });
}

const FINAL: ReadonlySet<StepState> = new Set(['completed', 'failed', 'skipped', 'aborted']);

async function applySteps(
  tx: Tx,
  { executionType }: RecoveryExecution,
  { steps, actions }: State,
  decision: Decision,
  now: Date,
): Promise<void> {
  const byId = new Map(steps.map((step) => [step.id, step]));
  const next = new Map(decision.steps.map(({ id, state }) => [id, state]));
  for (const [id, state] of next) {
    const step = byId.get(id);
    if (step === undefined) continue;
    const own = actions.filter(({ stepId }) => stepId === id);
    const hasWork = own.some(({ phase }) => phase === 'main');
    const bad = own.find(({ phase, errorCode }) => phase === 'main' && errorCode !== null);
    const isReady = state === 'completed';
    const changes: Partial<RecoveryStep> = {
      state,
      startedAt: step.startedAt ?? (state === 'skipped' ? null : now),
      ...(FINAL.has(state) ? { finishedAt: now } : {}),
      ...(isReady && hasWork ? { readyAt: now } : {}),
      ...(state === 'failed' && bad !== undefined
        ? { errorCode: bad.errorCode, errorMessage: bad.errorMessage }
        : {}),
      ...(isReady && hasWork && executionType === 'failover' ? { failedOverAt: now } : {}),
      ...(isReady ? savedBy(own) : {}),
    };
    await RecoveryStep.query(tx).findById(id).patch(changes);
    Object.assign(step, changes);
    if (isReady && executionType === 'failback' && step.bringsBack !== null) {
      await RecoveryStep.query(tx).findById(step.bringsBack).patch({ failedBackAt: now });
    }
  }
}

/** For a backed-up machine: the snapshot from which an operator restores it. */
function savedBy(actions: readonly RecoveryAction[]): Partial<RecoveryStep> {
  const saved = actions.find(({ spec }) => spec.does === 'save')?.result?.snapshotId;
  return saved === undefined ? {} : { snapshotId: saved };
}

async function noteRound(tx: Tx, execution: RecoveryExecution, { steps }: State, now: Date): Promise<void> {
  const stepsDone = steps.filter(({ state }) => FINAL.has(state)).length;
  const phase =
    execution.abortRequestedAt !== null
      ? 'aborting'
      : stepsDone === steps.length
        ? 'taking down'
        : execution.executionType === 'failback'
          ? 'bringing back'
          : 'restoring';
  const isStale = now.getTime() - execution.ledAt.getTime() >= LED_EVERY_MS;
  const isSame =
    execution.status === 'running' && execution.phase === phase && execution.stepsDone === stepsDone;
  if (isSame && !isStale) return;
  await execution.$query(tx).patch({
    status: 'running',
    startedAt: execution.startedAt ?? now,
    phase,
    stepsDone,
    ledAt: now,
  });
}

interface Ended {
  execution: RecoveryExecution;
  steps: readonly RecoveryStep[];
  actions: readonly RecoveryAction[];
  status: 'completed' | 'failed' | 'aborted';
  now: Date;
}

/** Ends an execution with its report and its alert. */
async function endExecution(tx: Tx, { execution, steps, actions, status, now }: Ended): Promise<void> {
  const { executionType, abortRequestedAt, rtoTargetMinutes, rpoTargetMinutes, orgId } = execution;
  const startedAt = execution.startedAt ?? execution.createdAt;
  const withWork = new Set(actions.flatMap(({ phase, stepId }) => (phase === 'main' ? [stepId] : [])));
  const left = actions.filter(isLeftover);
  const report = reportOf({
    executionType,
    startedAt,
    finishedAt: now,
    abortRequestedAt,
    rtoTargetMinutes,
    rpoTargetMinutes,
    steps: steps.map(({ id, state, recoveryPointAt, readyAt }) => ({
      state,
      recoveryPointAt,
      readyAt,
      hasWork: withWork.has(id),
    })),
    leftovers: left.length,
  });
  await RecoveryExecution.query(tx)
    .findById(execution.id)
    .patch({
      status,
      phase: null,
      stepsDone: steps.length,
      startedAt,
      finishedAt: now,
      report,
      haltReason: status === 'completed' ? null : haltReason(steps, left, abortRequestedAt),
    });
  await followRecoveryAlert(tx, orgId, { hasFailed: status === 'failed' });
}

export const isLeftover = ({ phase, state }: Pick<RecoveryAction, 'phase' | 'state'>): boolean =>
  phase === 'cleanup' && (state === 'running' || state === 'failed' || state === 'cancelled');

function haltReason(
  steps: readonly RecoveryStep[],
  left: readonly RecoveryAction[],
  abortRequestedAt: Date | null,
): string {
  const failed = steps.find(({ state }) => state === 'failed');
  const parts = [
    ...(abortRequestedAt === null ? [] : ['It was aborted.']),
    ...(failed === undefined
      ? []
      : [`${failed.deviceName}: ${failed.errorMessage ?? 'the step has failed.'}`]),
    ...(left.length === 0 ? [] : [`${left.length} of what it had started could not be taken down yet.`]),
  ];
  return shortened(parts.join(' '), 1000);
}

type Audited = Pick<RecoveryExecution, 'id' | 'orgId' | 'planId' | 'planName' | 'executionType'>;

/** Records actions of the server itself. `audit.committed` must be called after the commit. */
export async function recordBySystem(
  tx: Tx,
  { audit, log }: { audit: AuditTrail; log: Logger },
  { action, execution, more }: { action: string; execution: Audited; more: Record<string, unknown> },
): Promise<void> {
  const { id, orgId, planId, planName, executionType } = execution;
  const owner = await tx('organizations').where('id', orgId).first<{ partner_id: string }>('partner_id');
  await audit.record(tx, {
    action,
    resourceType: 'recovery_execution',
    resourceId: id,
    resourceName: planName,
    details: { planId, executionType, ...more },
    actor: { kind: 'system', orgId, partnerId: owner.partner_id },
    state: { client: { ip: null, userAgent: null }, log },
  });
}
