import type { z } from 'zod';
import { DAY_MS } from '../../clock.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { type BackOff, DEFAULT_BACK_OFF } from '../../platform/jobs/definition.ts';
import type { Logger } from '../../platform/logger.ts';
import type { AddedCommand } from '../commands/index.ts';

/** How people see work that has ended. */
export type WorkEndStatus = 'completed' | 'partial' | 'failed' | 'cancelled';
export type WorkStatus = 'pending' | 'running' | WorkEndStatus;

/** How many pieces of work of a kind run at a time. */
export interface WorkLimits {
  /** In this process. */
  inProcess: number;
  /** In all processes together; so are the next two. */
  inCluster?: number;
  ofPartner?: number;
  /** That name the same target. A piece of work can have another limit (`targetLimit`). */
  ofTarget?: number;
}

/** A kind of work. Its input passes through the database as JSON, so the schema describes a plain JSON value. */
export interface WorkKind<Input = unknown> {
  /** Unique, and kept for ever: stored work is found by it. As in `verification`. */
  kind: string;
  input: z.ZodType<Input>;
  /** The steps that `WorkBehavior` has a function for. Work begins with the first. */
  steps: readonly [string, ...string[]];
  limits: WorkLimits;
  /** How often a step is begun at most, counting the attempts that a killed process left unfinished. */
  attempts: number;
  backOff: BackOff;
  /** Work that has not ended by then has failed, unless a device has it. */
  deadlineMs: number;
  /** It counts as running from its first step. Otherwise from when a device has accepted its command. */
  runsOnServer: boolean;
  /** The types of the commands that it gives to devices. */
  commands: readonly string[];
  /** It is removed this many days after its end. */
  keptDays: number;
}

type Given<Input> = Pick<WorkKind<Input>, 'kind' | 'input' | 'steps'> & Partial<WorkKind<Input>>;

/** Declares a kind of work; what is left out has the values below. `WorkEngine.add` gives it its behavior. */
export function defineWork<Input>(given: Given<Input>): WorkKind<Input> {
  return {
    limits: { inProcess: 4 },
    attempts: 5,
    backOff: DEFAULT_BACK_OFF,
    deadlineMs: DAY_MS,
    runsOnServer: true,
    commands: [],
    // As long as backup jobs, so that the proof of a snapshot can be followed.
    keptDays: 400,
    ...given,
  };
}

/** A piece of work, as its steps and its settling see it. */
export interface WorkItem<Input = unknown> {
  id: string;
  input: Input;
  partnerId: string | null;
  orgId: string | null;
  deviceId: string | null;
  commandId: string | null;
  createdBy: string | null;
  createdAt: Date;
}

/** One attempt at a step. */
export interface WorkRun<Input = unknown> extends WorkItem<Input> {
  /** 1 for the first attempt at this step. */
  attempt: number;
  /**
   * Aborted when the work is cancelled or paused, when its deadline passes, when its lease is lost, and when the server
   * stops. A step that records what a command has done is aborted by the last two only.
   */
  signal: AbortSignal;
  log: Logger;
  /** What `save` was last called with. */
  checkpoint: unknown;
  /** Stores where a later attempt goes on. Rejects where the attempt has lost its lease, and must not go on. */
  save(checkpoint: unknown): Promise<void>;
  /**
   * Locks the work for the rest of a transaction of the step, so that what that stores only counts while the claim holds.
   * Rejects where the lease was lost, and where the work is cancelled.
   */
  hold(tx: Tx): Promise<void>;
  /** Shows people how far it is. Written at most once a second. */
  report(progress: WorkProgress): void;
}

/** Names as in the progress of commands, so that dashboards show both alike. */
export interface WorkProgress {
  phase?: string;
  percent?: number;
  done?: number;
  total?: number;
  message?: string;
}

export interface WorkEnd {
  status: WorkEndStatus;
  /** Of `failed`, and where `partial` has a reason: for programs and for people. */
  code?: string;
  message?: string;
  /** For `settle`. */
  result?: unknown;
}

/** What a step comes to. A step that throws is tried again, and fails the work when its attempts are used up. */
export type StepOutcome =
  | { end: WorkEnd }
  | { next: string; afterMs?: number }
  /** It cannot go on yet. The step is begun again then, and no attempt is counted. */
  | { waitMs: number }
  /** The same until the device connects. */
  | { until: 'connected' }
  /** The device never got the command: the work begins again, as if it had not begun. */
  | { restart: true; afterMs?: number }
  /** A command of the ledger. `give` adds it in the transaction that stores the outcome; it may find that nothing is to be done. */
  | { give: (tx: Tx) => Promise<AddedCommand | StepOutcome>; nextStep: string };

export interface WorkBehavior<Input> {
  steps: Readonly<Record<string, (run: WorkRun<Input>) => Promise<StepOutcome>>>;
  /**
   * A device has reported a result after the end. Returns the end that the work has by now; `undefined` leaves it as it
   * has ended.
   */
  late?: (run: WorkRun<Input>) => Promise<{ end: WorkEnd } | undefined>;
  /**
   * Stores the facts of the end, in the transaction that ends the work: once for each end, whatever has ended it. Called
   * again with the end that `late` returns.
   */
  settle?: (tx: Tx, work: WorkItem<Input>, end: WorkEnd) => Promise<void>;
}

/** Thrown by a step if trying again cannot help. */
export class PermanentWorkFailure extends Error {
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'PermanentWorkFailure';
    this.code = code;
  }
}

/** A kind with its behavior, so that the dispatcher needs to know nothing about its types. */
export interface BehavedKind extends WorkKind {
  step(name: string): ((run: WorkRun) => Promise<StepOutcome>) | undefined;
  late: ((run: WorkRun) => Promise<{ end: WorkEnd } | undefined>) | undefined;
  settle: ((tx: Tx, work: WorkItem, end: WorkEnd) => Promise<void>) | undefined;
}

export function behaved<Input>(kind: WorkKind<Input>, behavior: WorkBehavior<Input>): BehavedKind {
  for (const name of kind.steps) {
    if (behavior.steps[name] === undefined) throw new Error(`The work ${kind.kind} has no step ${name}.`);
  }
  const { late, settle } = behavior;
  const withInput = <T extends WorkItem>(item: T) => ({ ...item, input: inputOf(kind, item.input) });
  return {
    ...kind,
    step(name) {
      const step = behavior.steps[name];
      return step === undefined ? undefined : async (run) => step(withInput(run));
    },
    late: late === undefined ? undefined : async (run) => late(withInput(run)),
    settle: settle === undefined ? undefined : async (tx, work, end) => settle(tx, withInput(work), end),
  };
}

function inputOf<Input>({ kind, input }: WorkKind<Input>, stored: unknown): Input {
  const parsed = input.safeParse(stored);
  if (parsed.success) return parsed.data;
  // Only the paths: the values may be secret.
  const paths = parsed.error.issues.map(({ path }) => path.join('.')).join(', ');
  throw new PermanentWorkFailure(
    'INPUT_UNREADABLE',
    `This release cannot read the input of ${kind}: ${paths}`,
  );
}
