import { clock } from '../../clock.ts';
import { isDatabaseAway } from '../db/database-errors.ts';
import type { Logger } from '../logger.ts';
import { retryDelayMs } from './back-off.ts';
import { PermanentJobFailure } from './definition.ts';
import type { ClaimedJob, Ending, JobStore } from './job-store.ts';
import type { Kind } from './kind.ts';

/** Between attempts to store how a job has ended, while the database is away. */
const STORE_AGAIN_MS = 500;

export type StopReason = 'cancelled' | 'lease_lost' | 'closing';
export type Outcome = Ending['as'] | 'lost';

interface Parts {
  store: JobStore;
  log: Logger;
  leaseMs: number;
  /** When the claim was sent, by `clock.monotonic()`: the lease ends no earlier than counted from there. */
  claimedAt: number;
}

/** One attempt at a job, from its claim until its end is stored or its lease is lost. */
export class RunningJob {
  readonly kind: Kind;
  readonly claimed: ClaimedJob;
  /** Never rejects. */
  readonly ended: Promise<Outcome>;
  readonly #parts: Parts;
  readonly #log: Logger;
  readonly #abort = new AbortController();
  readonly #begunAt = clock.monotonic();
  #heldUntil: number;
  #stopped: StopReason | undefined;

  constructor(kind: Kind, claimed: ClaimedJob, parts: Parts) {
    this.kind = kind;
    this.claimed = claimed;
    this.#parts = parts;
    this.#heldUntil = parts.claimedAt + parts.leaseMs;
    const { id, attempt, partnerId } = claimed;
    this.#log = parts.log.child({
      job: kind.name,
      jobId: id,
      attempt,
      ...(partnerId === null ? {} : { partnerId }),
    });
    this.ended = this.#run();
  }

  /** Whether no other process can have begun the job again. */
  get isHeld(): boolean {
    return this.#stopped !== 'lease_lost' && clock.monotonic() < this.#heldUntil;
  }

  /** @param sentAt  when the renewal was sent, by `clock.monotonic()` */
  renewed(sentAt: number): void {
    this.#heldUntil = sentAt + this.#parts.leaseMs;
  }

  /** Aborts the handler, which decides how soon it ends. */
  stop(reason: StopReason): void {
    if (this.#stopped !== undefined && reason !== 'lease_lost') return;
    this.#stopped = reason;
    this.#abort.abort(new Error(STOP_MESSAGES[reason]));
  }

  async #run(): Promise<Outcome> {
    const ending = await this.#attempt();
    const outcome = await this.#store(ending.ending);
    const ms = Math.round(clock.monotonic() - this.#begunAt);
    this.#report(outcome, ending, ms);
    return outcome;
  }

  async #attempt(): Promise<{ ending: Ending; error?: unknown }> {
    try {
      const result = await this.kind.attempt(this.claimed, {
        signal: this.#abort.signal,
        log: this.#log,
        saveProgress: async (progress) => {
          this.#abort.signal.throwIfAborted();
          if (!(await this.#parts.store.saveProgress(this.claimed, progress))) this.stop('lease_lost');
          this.#abort.signal.throwIfAborted();
        },
      });
      return { ending: { as: 'succeeded', result } };
    } catch (error) {
      return { ending: this.#endingAfter(error), error };
    }
  }

  #endingAfter(error: unknown): Ending {
    const reason = (error instanceof Error ? error.message : String(error)).replaceAll('\0', '');
    if (this.#stopped === 'cancelled') return { as: 'cancelled', reason: STOP_MESSAGES.cancelled };
    if (this.#stopped === 'closing') return { as: 'handedBack', reason };
    const { attempt, maxAttempts } = this.claimed;
    if (attempt >= maxAttempts || error instanceof PermanentJobFailure) return { as: 'failed', reason };
    return { as: 'again', reason, afterMs: retryDelayMs(attempt, this.kind.backOff, Math.random()) };
  }

  /** Tries for as long as the lease is held: after that the job runs again elsewhere. */
  async #store(wanted: Ending): Promise<Outcome> {
    let ending = wanted;
    while (this.isHeld) {
      try {
        return (await this.#parts.store.end(this.claimed, ending)) ? ending.as : 'lost';
      } catch (error) {
        if (isDatabaseAway(error)) {
          await clock.sleep(STORE_AGAIN_MS);
        } else if (ending.as === 'succeeded') {
          // The work is done, so it is not done again.
          this.#log.error({ err: error }, 'job.result_not_stored');
          ending = { as: 'failed', reason: 'The work is done, but its result could not be stored.' };
        } else {
          this.#log.error({ err: error }, 'job.end_not_stored');
          return 'lost';
        }
      }
    }
    return 'lost';
  }

  #report(outcome: Outcome, { ending, error }: { ending: Ending; error?: unknown }, ms: number): void {
    switch (outcome) {
      case 'succeeded':
        return this.#log.info({ ms }, 'job.succeeded');
      case 'again':
        return this.#log.warn(
          { err: error, ms, retryMs: ending.as === 'again' ? ending.afterMs : 0 },
          'job.attempt_failed',
        );
      case 'failed':
        return this.#log.error({ err: error, ms }, 'job.failed');
      case 'cancelled':
        return this.#log.info({ ms }, 'job.cancelled');
      case 'handedBack':
        return this.#log.info({ ms }, 'job.handed_back');
      case 'lost':
        return this.#log.warn({ ...(error === undefined ? {} : { err: error }), ms }, 'job.lease_lost');
    }
  }
}

const STOP_MESSAGES: Record<StopReason, string> = {
  cancelled: 'The job was cancelled.',
  lease_lost: 'The lease of the job was lost: another server may have begun it again.',
  closing: 'The server is stopping.',
};
