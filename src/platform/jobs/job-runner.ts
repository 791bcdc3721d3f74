import { clock, type Timer } from '../../clock.ts';
import { isDatabaseAway } from '../db/database-errors.ts';
import type { Logger } from '../logger.ts';
import type { JobStore, ClaimedJob, Ending } from './job.queries.ts';
import { type Kind, retryDelayMs, PermanentJobFailure } from './definition.ts';
import type { Schedules } from './schedules.ts';

export interface JobTiming {
  /** How often the database is asked for work. What this process adds itself is begun at once. */
  pollMs: number;
  /** A job whose process is gone is taken over after this time. Leases are renewed three times as often. */
  leaseMs: number;
  /** A stopping server gives jobs so long to end by themselves before it aborts them. */
  graceMs: number;
  /** So long it waits for them in all. */
  closeMs: number;
}

export const JOB_TIMING: JobTiming = { pollMs: 1000, leaseMs: 30_000, graceMs: 2000, closeMs: 5000 };

interface Parts {
  store: JobStore;
  schedules: Schedules;
  timing: JobTiming;
  log: Logger;
  onEnd: (name: string, outcome: Outcome | 'takenOver') => void;
  /** Called after each round of work. */
  onRound: () => Promise<void>;
}

/** Within this time after the last round that went well, the runner counts as working. */
const WORKING_MS = 30_000;

/** One of this many places is kept for partners that have nothing running. */
const PLACES_FOR_EACH_RESERVED = 4;

/** Looks for due jobs, runs them, and renews their leases. */
export class JobRunner {
  readonly #parts: Parts;
  readonly #kinds = new Map<string, Kind>();
  readonly #running = new Map<string, RunningJob>();
  #looping: Promise<void> = Promise.resolve();
  /** The last round, which the next one follows. */
  #looked: Promise<unknown> = Promise.resolve();
  #wake = () => {};
  #isAwake = false;
  /** How often work was added, or has ended. */
  #wakes = 0;
  #timers: Timer[] = [];
  #renewing: Promise<void> | undefined;
  #isDatabaseAway = false;
  #hasFailedToClaim = false;
  #workedAt = Number.NEGATIVE_INFINITY;
  #isClosing = false;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  add(kind: Kind): void {
    if (this.#kinds.has(kind.name)) throw new Error(`The job ${kind.name} has a handler already.`);
    this.#kinds.set(kind.name, kind);
  }

  names(): string[] {
    return [...this.#kinds.keys()];
  }

  /** Whether it has lately found what was due, and begun it. */
  get isWorking(): boolean {
    return clock.monotonic() - this.#workedAt < WORKING_MS;
  }

  start(): void {
    const { leaseMs } = this.#parts.timing;
    this.#workedAt = clock.monotonic();
    this.#looping = this.#loop();
    this.#timers = [
      clock.setInterval(() => this.#renew(), leaseMs / 3).unref(),
      clock.setInterval(() => this.#dropUnheld(), leaseMs / 10).unref(),
    ];
  }

  /** Work was added: the next look is now. */
  wake(): void {
    this.#isAwake = true;
    this.#wakes += 1;
    this.#wake();
  }

  /** Runs what is due now, and what that adds, until nothing is due. Jobs that resume after a pause go on beyond it. */
  async settle(): Promise<void> {
    for (;;) {
      const wakes = this.#wakes;
      const hasFound = await this.#look();
      const running = [...this.#running.values()].filter(({ kind }) => !kind.resumes);
      // Jobs that ended since the look began may have added more.
      if (!hasFound && running.length === 0 && this.#wakes === wakes) return;
      await Promise.all(running.map(({ ended }) => ended));
    }
  }

  /** Begins nothing more. What is running may end by itself for a while, is then aborted, and given back. */
  async close(): Promise<void> {
    const { graceMs, closeMs } = this.#parts.timing;
    const until = clock.monotonic() + closeMs;
    const left = () => Math.max(0, until - clock.monotonic());
    this.#isClosing = true;
    this.#wake();
    await within(left(), this.#looping);
    for (const run of this.#running.values()) if (run.kind.resumes) run.stop('closing');
    await within(Math.min(graceMs, left()), this.#allEnded());
    for (const run of this.#running.values()) run.stop('closing');
    await within(left(), this.#allEnded());
    for (const timer of this.#timers) clock.clear(timer);
    if (this.#running.size === 0) return;
    const jobs = [...this.#running.values()].map(({ kind, claimed }) => `${kind.name} ${claimed.id}`);
    this.#parts.log.warn({ jobs }, 'jobs.left_running');
  }

  async #allEnded(): Promise<void> {
    await Promise.all([...this.#running.values()].map(({ ended }) => ended));
  }

  async #loop(): Promise<void> {
    while (!this.#isClosing) {
      this.#isAwake = false;
      try {
        await this.#look();
        this.#isDatabaseAway = false;
      } catch (error) {
        // Once for each time that the database is away.
        if (!this.#isDatabaseAway) this.#parts.log.warn({ err: error }, 'jobs.look_failed');
        this.#isDatabaseAway = true;
      }
      await this.#pause();
    }
  }

  async #pause(): Promise<void> {
    if (this.#isClosing || (this.#isAwake && !this.#isDatabaseAway)) return;
    await new Promise<void>((resolve) => {
      const timer = clock.setTimeout(() => resolve(), this.#parts.timing.pollMs).unref();
      this.#wake = () => {
        clock.clear(timer);
        resolve();
      };
    });
  }

  /** One round at a time. Returns whether there was something to do. */
  #look(): Promise<boolean> {
    const looking = this.#looked.then(() => this.#round());
    this.#looked = looking.catch(() => undefined);
    return looking;
  }

  async #round(): Promise<boolean> {
    const { store, schedules, onRound } = this.#parts;
    await schedules.register();
    const names = this.names().filter((name) => this.#free(name) > 0);
    const look = await store.look(names, [...this.#running.keys()], schedules.names());
    for (const id of look.cancelled) this.#running.get(id)?.stop('cancelled');
    if (look.overdue) await this.#takeOver();
    if (look.scheduled) await schedules.enqueueDue();
    if (look.overdue || look.scheduled) this.#isAwake = true;
    let claimed = 0;
    this.#hasFailedToClaim = false;
    for (const name of look.waiting) claimed += await this.#claim(name);
    await onRound();
    if (!this.#hasFailedToClaim) this.#workedAt = clock.monotonic();
    return look.overdue || look.scheduled || claimed > 0;
  }

  #free(name: string): number {
    const places = this.#kinds.get(name)?.concurrency ?? 0;
    let taken = 0;
    for (const { kind } of this.#running.values()) if (kind.name === name) taken += 1;
    return places - taken;
  }

  async #takeOver(): Promise<void> {
    const { store, log, onEnd } = this.#parts;
    for (const { id, name, attempt, state, partnerId } of await store.takeOver()) {
      const about = { job: name, jobId: id, attempt, ...(partnerId === null ? {} : { partnerId }) };
      if (state === 'failed') {
        log.error(about, 'job.failed');
        onEnd(name, 'failed');
      } else {
        log.warn(about, 'job.taken_over');
        onEnd(name, 'takenOver');
      }
    }
  }

  /** Returns the number of jobs that it has begun. */
  async #claim(name: string): Promise<number> {
    const { store, log, timing } = this.#parts;
    const kind = this.#kinds.get(name);
    const free = this.#free(name);
    if (kind === undefined || free <= 0 || this.#isClosing) return 0;
    const reserved = Math.floor(kind.concurrency / PLACES_FOR_EACH_RESERVED);
    const claimedAt = clock.monotonic();
    try {
      const { inCluster } = kind;
      const claimed = await store.claim({ name, free, reserved, inCluster, leaseMs: timing.leaseMs });
      for (const job of claimed) {
        const run = new RunningJob(kind, job, { store, log, leaseMs: timing.leaseMs, claimedAt });
        this.#running.set(job.id, run);
        void run.ended.then((outcome) => this.#ended(run, outcome));
      }
      return claimed.length;
    } catch (error) {
      if (isDatabaseAway(error)) throw error;
      // The other kinds get their turn.
      this.#hasFailedToClaim = true;
      log.error({ err: error, job: name }, 'jobs.claim_failed');
      return 0;
    }
  }

  #ended(run: RunningJob, outcome: Outcome): void {
    if (this.#running.get(run.claimed.id) === run) this.#running.delete(run.claimed.id);
    this.#parts.onEnd(run.kind.name, outcome);
    this.wake();
  }

  #renew(): void {
    const runs = [...this.#running.values()];
    if (runs.length === 0 || this.#renewing !== undefined) return;
    const { store, timing, log } = this.#parts;
    const sentAt = clock.monotonic();
    this.#renewing = store
      .renew(
        runs.map(({ claimed }) => claimed),
        timing.leaseMs,
      )
      .then(
        (kept) => {
          for (const run of runs) {
            if (kept.has(run.claimed.id)) run.renewed(sentAt);
            else run.stop('lease_lost');
          }
        },
        (error: unknown) => log.warn({ err: error }, 'jobs.leases_not_renewed'),
      )
      .finally(() => (this.#renewing = undefined));
  }

  /** Without the database nothing is renewed, and another server that still has it begins these jobs again. */
  #dropUnheld(): void {
    for (const run of this.#running.values()) if (!run.isHeld) run.stop('lease_lost');
  }
}

async function within(ms: number, work: Promise<unknown>): Promise<void> {
  const late = new AbortController();
  await Promise.race([work, clock.sleep(ms, { signal: late.signal }).catch(() => undefined)]);
  late.abort();
}

/** Between attempts to store how a job has ended, while the database is away. */
const STORE_AGAIN_MS = 500;

type StopReason = 'cancelled' | 'lease_lost' | 'closing';
type Outcome = Ending['as'] | 'lost';

interface RunParts {
  store: JobStore;
  log: Logger;
  leaseMs: number;
  /** When the claim was sent, by `clock.monotonic()`: the lease ends no earlier than counted from there. */
  claimedAt: number;
}

/** One attempt at a job, from its claim until its end is stored or its lease is lost. */
class RunningJob {
  readonly kind: Kind;
  readonly claimed: ClaimedJob;
  /** Never rejects. */
  readonly ended: Promise<Outcome>;
  readonly #parts: RunParts;
  readonly #log: Logger;
  readonly #abort = new AbortController();
  readonly #begunAt = clock.monotonic();
  #heldUntil: number;
  #stopped: StopReason | undefined;

  constructor(kind: Kind, claimed: ClaimedJob, parts: RunParts) {
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
