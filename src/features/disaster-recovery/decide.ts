import type { ActionKind, ActionState, GROUP_STATES, StepState, RecoveryReport } from './execution.schema.ts';
import type { ExecutionType } from './plan.schema.ts';

/**
 * Decides the next steps of an execution from the states of its actions. It does not depend on devices, times or the
 * database, and is idempotent for the same state: any server can run it at any moment.
 */

export interface ActionNow {
  id: string;
  kind: ActionKind;
  phase: 'main' | 'cleanup';
  state: ActionState;
  /** For a cleanup: the action that it undoes. */
  undoes: string | null;
  isCancelRequested: boolean;
  /** Its device has been absent for too long or does not react, so the execution does not wait for its end. */
  isLost: boolean;
}

export interface StepNow {
  id: string;
  state: StepState;
  restoreType: 'files' | 'vm' | 'instant';
  /** In order. */
  actions: readonly ActionNow[];
}

export interface GroupNow {
  id: string;
  sequence: number;
  dependsOnGroupId: string | null;
  steps: readonly StepNow[];
}

export interface ExecutionNow {
  type: ExecutionType;
  isAborting: boolean;
  groups: readonly GroupNow[];
}

export interface Decision {
  /** Actions to assign to their devices. */
  start: string[];
  /** Actions whose devices are asked to stop. */
  cancel: string[];
  /** Actions that end here, although their devices have not reported. */
  giveUp: string[];
  /** Actions that are no longer needed. */
  skip: string[];
  steps: { id: string; state: StepState }[];
  end: 'completed' | 'failed' | 'aborted' | undefined;
}

type GroupState = (typeof GROUP_STATES)[number];

const FINAL_STEPS: ReadonlySet<StepState> = new Set(['completed', 'failed', 'skipped', 'aborted']);
const isFinal = (state: StepState) => FINAL_STEPS.has(state);
const hasEnded = (state: ActionState) => state !== 'waiting' && state !== 'running';

/** The state of a group, derived from its steps. */
export function groupState(states: readonly StepState[]): GroupState {
  if (states.every((state) => state === 'completed')) return 'completed';
  if (states.every((state) => state === 'waiting')) return 'waiting';
  if (!states.every(isFinal)) return 'running';
  if (states.includes('failed')) return 'failed';
  return states.includes('aborted') ? 'aborted' : 'skipped';
}

export function decide(execution: ExecutionNow): Decision {
  const decision: Decision = { start: [], cancel: [], giveUp: [], skip: [], steps: [], end: undefined };
  const states = new Map<string, StepState>();
  for (const { steps } of execution.groups) for (const { id, state } of steps) states.set(id, state);
  const stateOf = ({ steps }: GroupNow) => groupState(steps.map(({ id }) => states.get(id) ?? 'waiting'));

  // The outcome of one group immediately affects the groups that depend on it.
  const inOrder = execution.groups.toSorted((a, b) => a.sequence - b.sequence);
  for (let hasMoved = true; hasMoved; ) {
    hasMoved = false;
    for (const group of inOrder) {
      const before = inOrder.filter(
        ({ id, sequence }) => sequence < group.sequence || id === group.dependsOnGroupId,
      );
      const way = wayOf(before.map(stateOf));
      for (const step of group.steps) {
        const state = states.get(step.id) ?? step.state;
        if (state !== step.state || isFinal(state)) continue;
        const next = decideStep(step, { way, isAborting: execution.isAborting }, decision);
        if (next === state) continue;
        states.set(step.id, next);
        decision.steps.push({ id: step.id, state: next });
        hasMoved = true;
      }
    }
  }
  decideCleanup(execution, states, decision);
  decision.end = endOf(execution, states, decision);
  return unique(decision);
}

type Way = 'open' | 'closed' | 'blocked';

/** Whether the dependencies of a group allow it to begin, may still allow it, or never will. */
function wayOf(before: readonly GroupState[]): Way {
  if (before.every((state) => state === 'completed')) return 'open';
  return before.some((state) => state === 'failed' || state === 'aborted' || state === 'skipped')
    ? 'blocked'
    : 'closed';
}

interface Circumstances {
  way: Way;
  isAborting: boolean;
}

/** Returns the next state of an unfinished step, and adds the changes of its actions to the decision. */
function decideStep(step: StepNow, { way, isAborting }: Circumstances, decision: Decision): StepState {
  const main = step.actions.filter(({ phase }) => phase === 'main');
  const skipRest = () => {
    for (const { id, state } of main) if (state === 'waiting') decision.skip.push(id);
  };
  if (step.state === 'waiting' && (isAborting || way === 'blocked')) {
    skipRest();
    return isAborting ? 'aborted' : 'skipped';
  }
  if (step.state === 'waiting' && way === 'closed') return 'waiting';
  const running = main.find(({ state }) => state === 'running');
  if (running !== undefined) {
    if (!running.isLost) {
      if (isAborting && !running.isCancelRequested) decision.cancel.push(running.id);
      return running.kind === 'check' ? 'checking' : 'running';
    }
    if (!running.isCancelRequested) decision.cancel.push(running.id);
    decision.giveUp.push(running.id);
    skipRest();
    return isAborting ? 'aborted' : 'failed';
  }
  const bad = main.find(({ state }) => state === 'failed' || state === 'cancelled');
  if (bad !== undefined) {
    skipRest();
    return isAborting && bad.state === 'cancelled' ? 'aborted' : 'failed';
  }
  const next = main.find(({ state }) => state === 'waiting');
  if (next === undefined) return 'completed';
  if (isAborting) {
    skipRest();
    return 'aborted';
  }
  decision.start.push(next.id);
  return next.kind === 'check' ? 'checking' : 'running';
}

/**
 * Cleans up temporary resources: after a rehearsal all of them, once no group needs them; after an abort also machines
 * of a failover that are not in use yet.
 */
function decideCleanup(
  { type, isAborting, groups }: ExecutionNow,
  states: ReadonlyMap<string, StepState>,
  decision: Decision,
): void {
  const steps = groups.flatMap((group) => group.steps);
  const stateOf = ({ id, state }: StepNow) => states.get(id) ?? state;
  const isMainOver = steps.every((step) => isFinal(stateOf(step)));
  for (const step of steps) {
    const state = stateOf(step);
    if (!isFinal(state) || !(isMainOver || isAborting)) continue;
    const isWanted =
      type === 'rehearsal' || (isAborting && state !== 'completed' && step.restoreType !== 'files');
    for (const action of step.actions) {
      if (action.phase !== 'cleanup' || action.state !== 'waiting') continue;
      const undone = step.actions.find(({ id }) => id === action.undoes);
      const wasStarted =
        undone !== undefined &&
        undone.state !== 'waiting' &&
        undone.state !== 'skipped' &&
        !decision.skip.includes(undone.id);
      if (isWanted && wasStarted) decision.start.push(action.id);
      else decision.skip.push(action.id);
    }
  }
}

function endOf(
  { isAborting, groups }: ExecutionNow,
  states: ReadonlyMap<string, StepState>,
  decision: Decision,
): Decision['end'] {
  const steps = groups.flatMap((group) => group.steps);
  const ends = steps.map(({ id, state }) => states.get(id) ?? state);
  if (!ends.every(isFinal)) return undefined;
  const cleanups = steps.flatMap(({ actions }) => actions.filter(({ phase }) => phase === 'cleanup'));
  const areOver = cleanups.every(
    ({ id, state, isLost }) =>
      hasEnded(state) || decision.skip.includes(id) || (state === 'running' && isLost),
  );
  if (!areOver) return undefined;
  if (isAborting) return 'aborted';
  const isClean = cleanups.every(
    ({ id, state }) => state === 'succeeded' || state === 'skipped' || decision.skip.includes(id),
  );
  return isClean && ends.every((state) => state === 'completed') ? 'completed' : 'failed';
}

const unique = (decision: Decision): Decision => ({
  ...decision,
  skip: [...new Set(decision.skip)],
  start: [...new Set(decision.start)],
  cancel: [...new Set(decision.cancel)],
});

/** The results of an execution, compared with the targets of its plan. */

interface ReportedStep {
  state: StepState;
  /** False: the source had already failed over. */
  hasWork: boolean;
  recoveryPointAt: Date | null;
  readyAt: Date | null;
}

interface Reported {
  executionType: ExecutionType;
  startedAt: Date;
  finishedAt: Date;
  abortRequestedAt: Date | null;
  rtoTargetMinutes: number | null;
  rpoTargetMinutes: number | null;
  steps: readonly ReportedStep[];
  leftovers: number;
}

export function reportOf({
  executionType,
  startedAt,
  finishedAt,
  abortRequestedAt,
  rtoTargetMinutes,
  rpoTargetMinutes,
  steps,
  leftovers,
}: Reported): RecoveryReport {
  const areAllReady = steps.length > 0 && steps.every(({ state }) => state === 'completed');
  const readyMs = steps.flatMap(({ readyAt }) => (readyAt === null ? [] : [readyAt.getTime()]));
  const rtoSeconds =
    areAllReady && readyMs.length > 0 ? secondsBetween(startedAt, new Date(Math.max(...readyMs))) : null;
  const pointMs = steps.flatMap(({ recoveryPointAt }) =>
    recoveryPointAt === null ? [] : [recoveryPointAt.getTime()],
  );
  const rpoSeconds =
    executionType === 'failback' || pointMs.length === 0
      ? null
      : secondsBetween(new Date(Math.min(...pointMs)), startedAt);
  // A device without a snapshot has lost everything, whatever the age of the others.
  const hasLostAll = steps.some(({ hasWork, recoveryPointAt }) => hasWork && recoveryPointAt === null);
  return {
    rtoSeconds,
    rpoSeconds,
    rtoTargetMinutes,
    rpoTargetMinutes,
    rtoMet: metBy(rtoTargetMinutes, rtoSeconds, !areAllReady && abortRequestedAt === null),
    rpoMet: executionType === 'failback' ? null : metBy(rpoTargetMinutes, rpoSeconds, hasLostAll),
    abortSeconds:
      abortRequestedAt === null ? null : (finishedAt.getTime() - abortRequestedAt.getTime()) / 1000,
    leftovers,
  };
}

export const secondsBetween = (from: Date, to: Date): number =>
  Math.max(0, Math.round((to.getTime() - from.getTime()) / 1000));

function metBy(targetMinutes: number | null, seconds: number | null, isMissed: boolean): boolean | null {
  if (targetMinutes === null) return null;
  if (isMissed) return false;
  return seconds === null ? null : seconds <= targetMinutes * 60;
}
