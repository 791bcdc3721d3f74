import type { ExecutionType } from '../../plans/plan.schema.ts';
import type { ActionKind, ActionState, GROUP_STATES, StepState } from '../execution.schema.ts';

/**
 * Decides what comes next in an execution, from how its actions stand. It knows neither devices nor times nor the
 * database, and deciding twice about the same state gives the same: so any server can do it, at any moment.
 */

export interface ActionNow {
  id: string;
  kind: ActionKind;
  phase: 'main' | 'cleanup';
  state: ActionState;
  /** Of a cleanup: the action that it undoes. */
  undoes: string | null;
  isCancelRequested: boolean;
  /** Its device is away for too long, or does not react: nobody waits for its end any more. */
  isLost: boolean;
}

export interface StepNow {
  id: string;
  state: StepState;
  restoreType: 'files' | 'vm' | 'instant';
  /** In their order. */
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
  /** Actions to give to their devices. */
  start: string[];
  /** Actions whose devices are asked to stop. */
  cancel: string[];
  /** Actions that end here, although their devices have not reported. */
  giveUp: string[];
  /** Actions that are not needed any more. */
  skip: string[];
  steps: { id: string; state: StepState }[];
  end: 'completed' | 'failed' | 'aborted' | undefined;
}

type GroupState = (typeof GROUP_STATES)[number];

const FINAL_STEPS: ReadonlySet<StepState> = new Set(['completed', 'failed', 'skipped', 'aborted']);
const isFinal = (state: StepState) => FINAL_STEPS.has(state);
const hasEnded = (state: ActionState) => state !== 'waiting' && state !== 'running';

/** How a group stands, by its steps. */
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

  // What becomes of one group counts for those behind it at once.
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

/** Whether the groups that a group waits for let it begin, may still do so, or never will. */
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

/** Answers the next state of a step that has not ended, and notes what is to be done with its actions. */
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
 * What was started for the time of an execution is taken down: after a rehearsal everything, when no group needs anything
 * of it any more; after an abort also machines of a failover that nobody has begun to use.
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
