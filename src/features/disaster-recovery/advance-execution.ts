import { clock } from '../../../../clock.ts';
import type { DeviceHub } from '../../../../hub/index.ts';
import { type Tx, withSavepoint, withSystem } from '../../../../platform/db/transaction.ts';
import type { AuditTrail } from '../../../../platform/http/audit.ts';
import { cancelWork, WorkRefused } from '../../../backup/index.ts';
import { type AddedCommand, announceCommands, cancelServerCommand } from '../../../commands/index.ts';
import { type Decision, decide, type ExecutionNow } from '../decisions/decide.ts';
import { endExecution } from './end.ts';
import { RecoveryAction, RecoveryExecution, RecoveryStep } from '../execution.model.ts';
import type { StepState } from '../execution.schema.ts';
import { groupBy } from '../decisions/group-by.ts';
import { asNow, badEnd, type DeviceNow, devicesNow, endedActions } from './observe.ts';
import { readGuestOf, type ReadingParts } from './read-guest.ts';
import { recordBySystem } from './system-audit.ts';
import { startAction, type StartParts } from './start-action.ts';

export interface AdvanceParts extends StartParts, ReadingParts {
  audit: AuditTrail;
}

/** `moved`: there may be more to do at once. `still`: nothing but to wait. */
export type Advance = 'moved' | 'still' | 'ended';

/** One transaction holds the row of the execution only while it gives so much work to devices. */
const STARTS_AT_ONCE = 20;
const LED_EVERY_MS = 20_000;

/**
 * One round of an execution: notes what has ended, decides what comes next, and does it. All in one transaction, which
 * waits for no device, so a server that dies in it has done nothing; devices hear of it after the commit, or
 * from the ledger of commands where the server dies before that.
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
  // One at a time, so that what is ready is given to its device in between.
  await readGuestOf(parts, unread, signal);
  return 'moved';
}

/** What devices and dashboards hear after the commit. */
interface Notices {
  commands: AddedCommand[];
  announce: (() => void)[];
  /** Actions with a guest of which the store was not asked yet. */
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
  await cancelActions(tx, state, decision, { hub: parts.hub, notices });
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

/** Changes the rows and the objects that were read of them. */
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
  const ofStep = groupBy(actions, ({ stepId }) => stepId);
  const ofGroup = groupBy(steps, ({ groupId }) => groupId);
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
  { hub, notices }: { hub: DeviceHub; notices: Notices },
): Promise<void> {
  const byId = new Map(actions.map((action) => [action.id, action]));
  for (const id of cancel) {
    const action = byId.get(id);
    const announce = action === undefined ? undefined : await cancelOne(tx, action, hub);
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
  hub: DeviceHub,
): Promise<(() => void) | undefined> {
  if (restoreId !== null) return cancelWork(tx, { restoreId }, hub);
  if (vmRestoreId !== null) return cancelWork(tx, { vmRestoreId }, hub);
  if (backupJobId !== null) return cancelWork(tx, { backupJobId }, hub);
  return commandId === null ? () => {} : (await cancelServerCommand(tx, commandId, hub)).announce;
}

interface Starts {
  execution: RecoveryExecution;
  state: State;
  decision: Decision;
  parts: AdvanceParts;
  notices: Notices;
}

/** Answers how many were given to their devices or refused. */
async function startActions(tx: Tx, { execution, state, decision, parts, notices }: Starts): Promise<number> {
  const byId = new Map(state.actions.map((action) => [action.id, action]));
  const ofStep = groupBy(state.actions, ({ stepId }) => stepId);
  let moved = 0;
  for (const id of decision.start.slice(0, STARTS_AT_ONCE)) {
    const action = byId.get(id);
    if (action === undefined) continue;
    const device = state.devices.get(action.deviceId);
    const siblings = ofStep.get(action.stepId) ?? [];
    const startedAt = clock.date();
    try {
      // One that fails half way leaves nothing behind, and does not hold up the others.
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

/** Of a machine that was backed up: the snapshot from which a person brings it back. */
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
