import { clock, type Timer } from '../../clock.ts';
import { isDatabaseAway, isWorthRepeating } from '../../platform/db/database-errors.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { retryDelayMs } from '../../platform/jobs/definition.ts';
import type { Logger } from '../../platform/logger.ts';
import { shortened, storableText } from '../../protocol/index.ts';
import { type AddedCommand, setWorkOfCommand } from '../commands/index.ts';
import {
  type BehavedKind,
  PermanentWorkFailure,
  type StepOutcome,
  type WorkEnd,
  type WorkItem,
  type WorkProgress,
} from './definition.ts';
import { type ClaimedWork, lockWork, type StoredOutcome, type WorkStore } from './work.queries.ts';

/** Why an attempt is aborted. */
export type StopReason = 'cancelled' | 'paused' | 'deadline' | 'lease_lost' | 'closing';

const STOP_MESSAGES: Record<StopReason, string> = {
  cancelled: 'The work was cancelled.',
  paused: 'The work was paused.',
  deadline: 'The deadline of the work has passed.',
  lease_lost: 'The lease of the work was lost: another server may have begun it again.',
  closing: 'The server is stopping.',
};

const EXPIRED = { code: 'EXPIRED', message: 'The work could not begin before its deadline.' };
const TIMED_OUT = { code: 'TIMED_OUT', message: 'The work did not end before its deadline.' };
const BROKEN = { code: 'DEPENDENCY_FAILED', message: 'Work that this needs has not succeeded.' };
const GIVEN_UP = {
  code: 'ATTEMPTS_USED',
  message: 'The server has tried as often as it may. Its log names the causes.',
};

/** What is written at most this often of the progress of one attempt. */
const REPORT_EVERY_MS = 1000;
const STORE_AGAIN_MS = 500;
/** So often an outcome is stored again after a deadlock and the like, for which the step is not to blame. */
const REPEATS_MAX = 5;
const CODE_MAX = 64;
const MESSAGE_MAX = 2000;
/** The longest time for which Node sets a timer. */
const TIMER_MAX_MS = 2 ** 31 - 1;

export interface AttemptParts {
  store: Pick<WorkStore, 'save' | 'transaction' | 'store'>;
  /** Stores simple outcomes, those of several attempts in one statement. Returns whether the claim still held. */
  storeSoon: (outcome: StoredOutcome) => Promise<boolean>;
  /** Whether this process still holds what it has claimed. */
  isHeld: () => boolean;
  onCommand: (command: AddedCommand) => void;
  log: Logger;
}

/** How an attempt has ended: as the outcome says, or `lost` where the claim did not hold any more. */
export type AttemptEnd = 'ended' | 'open' | 'again' | 'lost';

/** One attempt at a step, from its claim until its outcome is stored or its lease is lost. */
export class WorkAttempt {
  readonly kind: BehavedKind;
  readonly claimed: ClaimedWork;
  /** Never rejects. */
  readonly ended: Promise<AttemptEnd>;
  readonly #parts: AttemptParts;
  readonly #log: Logger;
  readonly #abort = new AbortController();
  readonly #deadline: Timer | undefined;
  #stopped: StopReason | undefined;
  #pending: WorkProgress | undefined;
  #isReporting = false;
  /** The step has ended, and its outcome is stored together with those of others. */
  isBeingStored = false;
  #reportedAt = Number.NEGATIVE_INFINITY;

  constructor(kind: BehavedKind, claimed: ClaimedWork, parts: AttemptParts) {
    this.kind = kind;
    this.claimed = claimed;
    this.#parts = parts;
    const { id, step, attempt, partnerId, secondsLeft } = claimed;
    this.#log = parts.log.child({
      work: kind.kind,
      workId: id,
      step,
      attempt,
      ...(partnerId === null ? {} : { partnerId }),
    });
    // A command has a time limit of its own, and what it has done is to be recorded even after the deadline.
    if (!this.#recordsCommand) {
      const ms = Math.min(Math.max(secondsLeft * 1000, 0), TIMER_MAX_MS);
      this.#deadline = clock.setTimeout(() => this.stop('deadline'), ms).unref();
    }
    this.ended = this.#run().finally(() => clock.clear(this.#deadline));
  }

  /** Aborts the step, which decides how soon it ends. What a device has done is recorded all the same. */
  stop(reason: StopReason): void {
    if (this.#recordsCommand && (reason === 'cancelled' || reason === 'paused')) return;
    if (this.#stopped === 'lease_lost' || (this.#stopped !== undefined && reason !== 'lease_lost')) return;
    this.#stopped = reason;
    this.#abort.abort(new Error(STOP_MESSAGES[reason]));
  }

  get #recordsCommand(): boolean {
    return this.claimed.commandId !== null;
  }

  get #isHeld(): boolean {
    return this.#stopped !== 'lease_lost' && this.#parts.isHeld();
  }

  async #run(): Promise<AttemptEnd> {
    let outcome = await this.#outcome();
    let repeats = 0;
    for (;;) {
      if (!this.#isHeld) return this.#lost();
      try {
        const end = await this.#store(outcome);
        return end === 'lost' ? this.#lost() : end;
      } catch (error) {
        if (isDatabaseAway(error) || (isWorthRepeating(error) && ++repeats <= REPEATS_MAX)) {
          // At different times, so that those who met in a deadlock do not meet again.
          await clock.sleep(STORE_AGAIN_MS * (0.5 + Math.random()));
          continue;
        }
        this.#log.error({ err: error }, 'work.outcome_not_stored');
        outcome = this.#afterUnstored();
      }
    }
  }

  /** What cannot be settled is tried again, and at last ends without its facts. */
  #afterUnstored(): WithBareEnd {
    const { attempt, hasEnded } = this.claimed;
    if (attempt < this.kind.attempts) return this.#again();
    return hasEnded ? 'leave' : { end: { status: 'failed', ...GIVEN_UP }, isBare: true };
  }

  #lost(): 'lost' {
    this.#log.warn({}, 'work.lease_lost');
    return 'lost';
  }

  async #outcome(): Promise<WithBareEnd> {
    const { claimed, kind } = this;
    const { isCancelled, isBroken, hasEnded, secondsLeft, attempt } = claimed;
    if (!hasEnded) {
      if (isCancelled && !this.#recordsCommand) return { end: { status: 'cancelled' } };
      if (isBroken) return { end: { status: 'failed', ...BROKEN } };
      if (!this.#recordsCommand && secondsLeft <= 0) {
        return { end: { status: 'failed', ...(attempt === 1 ? EXPIRED : TIMED_OUT) } };
      }
    }
    if (attempt > kind.attempts) return hasEnded ? 'leave' : { end: { status: 'failed', ...GIVEN_UP } };
    const step = hasEnded ? kind.late : kind.step(claimed.step);
    if (step === undefined) {
      if (hasEnded) return 'leave';
      this.#log.error({}, 'work.step_unknown');
      return {
        end: { status: 'failed', code: 'STEP_UNKNOWN', message: 'This release does not know the next step.' },
      };
    }
    try {
      const outcome = await step({
        ...itemOf(claimed),
        attempt,
        checkpoint: claimed.checkpoint ?? undefined,
        signal: this.#abort.signal,
        log: this.#log,
        save: (checkpoint) => this.#save({ checkpoint }),
        hold: (tx) => this.#hold(tx),
        report: (progress) => this.#report(progress),
      });
      this.#pending = undefined;
      return outcome ?? 'leave';
    } catch (error) {
      return this.#afterFailure(error);
    }
  }

  #afterFailure(error: unknown): WithBareEnd {
    switch (this.#stopped) {
      case 'cancelled':
        return { end: { status: 'cancelled' } };
      case 'deadline':
        return { end: { status: 'failed', ...TIMED_OUT } };
      case 'paused':
      case 'closing':
        return { waitMs: 0 };
      default:
    }
    const { attempt, hasEnded } = this.claimed;
    if (error instanceof PermanentWorkFailure) {
      this.#log.warn({ err: error }, 'work.failed');
      return hasEnded ? 'leave' : { end: { status: 'failed', code: error.code, message: error.message } };
    }
    if (attempt < this.kind.attempts) {
      this.#log.warn({ err: error }, 'work.attempt_failed');
      return this.#again();
    }
    this.#log.error({ err: error }, 'work.failed');
    return hasEnded ? 'leave' : { end: { status: 'failed', ...GIVEN_UP } };
  }

  #again(): { next: string; afterMs: number; keepsAttempts: true } {
    const { attempt, step } = this.claimed;
    return {
      next: step,
      afterMs: retryDelayMs(Math.max(attempt, 1), this.kind.backOff, Math.random()),
      keepsAttempts: true,
    };
  }

  async #store(outcome: WithBareEnd): Promise<AttemptEnd> {
    const { id, fence, step } = this.claimed;
    const row = { id, fence, step, afterMs: 0 };
    if (outcome === 'leave') {
      return this.#soon({ ...row, stage: 'ended', attempts: 0 }, 'ended');
    }
    if ('end' in outcome) return this.#end(outcome.end, 'isBare' in outcome);
    if ('give' in outcome) return this.#give(outcome.give, outcome.nextStep);
    if ('until' in outcome) return this.#soon({ ...row, stage: 'parked', attempts: -1 }, 'open');
    if ('waitMs' in outcome) {
      return this.#soon({ ...row, stage: 'ready', afterMs: outcome.waitMs, attempts: -1 }, 'open');
    }
    if ('restart' in outcome) {
      const { afterMs = 0 } = outcome;
      const first = { step: this.kind.steps[0], attempts: 'reset', isRestart: true } as const;
      return this.#soon({ ...row, ...first, stage: 'ready', afterMs }, 'open');
    }
    const { next, afterMs = 0 } = outcome;
    const keepsAttempts = 'keepsAttempts' in outcome;
    return this.#soon(
      { ...row, stage: 'ready', step: next, afterMs, attempts: keepsAttempts ? 0 : 'reset' },
      keepsAttempts ? 'again' : 'open',
    );
  }

  async #soon(row: StoredOutcome, end: AttemptEnd): Promise<AttemptEnd> {
    this.isBeingStored = true;
    return (await this.#parts.storeSoon(row)) ? end : 'lost';
  }

  /** Work with facts of its own ends together with them. */
  async #end(end: WorkEnd, isBare: boolean): Promise<AttemptEnd> {
    const { id, fence, step } = this.claimed;
    const { status, message } = end;
    const code = end.code === undefined ? undefined : storableText(end.code);
    const row: StoredOutcome = {
      id,
      fence,
      step,
      stage: 'ended',
      afterMs: 0,
      attempts: 0,
      status,
      ...(code === undefined ? {} : { code: code.slice(0, CODE_MAX) }),
      ...(message === undefined ? {} : { message: shortened(storableText(message), MESSAGE_MAX) }),
    };
    const { settle } = this.kind;
    if (settle === undefined || isBare) return this.#soon(row, 'ended');
    return this.#parts.store.transaction(async (tx) => {
      if (!(await this.#parts.store.store([row], tx)).has(id)) return 'lost';
      await settle(tx, itemOf(this.claimed), end);
      return 'ended';
    });
  }

  async #give(give: (tx: Tx) => Promise<AddedCommand | StepOutcome>, nextStep: string): Promise<AttemptEnd> {
    const { id, fence } = this.claimed;
    const given = await this.#parts.store.transaction(
      async (tx): Promise<AddedCommand | StepOutcome | 'lost'> => {
        // A request to cancel waits for this lock, and then finds the command; or it came first, and is found here.
        const locked = await lockWork(tx, id);
        if (locked === undefined || Number(locked.fence) !== fence || locked.stage !== 'leased') {
          return 'lost';
        }
        if (locked.isCancelled) return { end: { status: 'cancelled' } };
        const command = await give(tx);
        if (!('change' in command)) return command;
        await setWorkOfCommand(tx, command.id, id);
        const row = { id, fence, step: nextStep, stage: 'device', afterMs: 0, attempts: 'reset' } as const;
        const stored = await this.#parts.store.store([{ ...row, commandId: command.id }], tx);
        if (!stored.has(id)) throw new Error('The work is locked, and still its claim does not hold.');
        return command;
      },
    );
    if (given === 'lost') return 'lost';
    if (!('change' in given)) return this.#store(given);
    this.#parts.onCommand(given);
    return 'open';
  }

  #report(progress: WorkProgress): void {
    this.#pending = progress;
    if (!this.#isReporting) void this.#write();
  }

  /** The newest report, once the time since the one before it has passed. A step that ends does not wait for it. */
  async #write(): Promise<void> {
    this.#isReporting = true;
    while (this.#pending !== undefined && this.#isHeld && !this.#abort.signal.aborted) {
      const waitMs = this.#reportedAt + REPORT_EVERY_MS - clock.monotonic();
      if (waitMs > 0) {
        await clock.sleep(waitMs, { signal: this.#abort.signal }).catch(() => undefined);
        continue;
      }
      const progress = this.#pending;
      this.#pending = undefined;
      this.#reportedAt = clock.monotonic();
      await this.#save({ progress }).catch((error: unknown) =>
        this.#log.debug({ err: error }, 'work.progress_not_stored'),
      );
    }
    this.#isReporting = false;
  }

  async #hold(tx: Tx): Promise<void> {
    this.#abort.signal.throwIfAborted();
    const locked = await lockWork(tx, this.claimed.id);
    if (locked?.stage !== 'leased' || Number(locked.fence) !== this.claimed.fence) this.stop('lease_lost');
    else if (locked.isCancelled) this.stop('cancelled');
    this.#abort.signal.throwIfAborted();
  }

  async #save(what: Parameters<WorkStore['save']>[1]): Promise<void> {
    this.#abort.signal.throwIfAborted();
    if (!(await this.#parts.store.save(this.claimed, what))) this.stop('lease_lost');
    this.#abort.signal.throwIfAborted();
  }
}

/** `leave`: it has ended before, and stays as it ended. `isBare`: without its facts, which could not be stored. */
type WithBareEnd =
  | StepOutcome
  | { end: WorkEnd; isBare: true }
  | { next: string; afterMs: number; keepsAttempts: true }
  | 'leave';

export const itemOf = ({
  id,
  input,
  partnerId,
  orgId,
  deviceId,
  commandId,
  createdBy,
  createdAt,
}: WorkItem): WorkItem => ({
  id,
  input,
  partnerId,
  orgId,
  deviceId,
  commandId,
  createdBy,
  createdAt,
});
