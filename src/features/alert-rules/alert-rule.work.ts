import { clock, type Timer } from '../../clock.ts';
import { isDatabaseAway } from '../../platform/db/database-errors.ts';
import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import type { Logger } from '../../platform/logger.ts';
import { RetryBackoff } from '../../platform/retry-backoff.ts';
import {
  endRound,
  lockRound,
  type Locked,
  type Changes,
  sum,
  evaluate,
  organizationIds,
} from './round.queries.ts';

export interface RoundTiming {
  everyMs: number;
  /** How often a round examines everything instead of only what changed. */
  wholeEveryMs: number;
  /** The first delay before an organization that failed is evaluated again. */
  retryMs?: number;
}

const TIMING: RoundTiming = { everyMs: 30_000, wholeEveryMs: 600_000 };

/** How long a server counts as just started. */
const STARTING_MS = 120_000;

export interface Round extends Changes {
  isWhole: boolean;
}

/**
 * Evaluates the alert rules in regular rounds. Servers on one database take turns: a round holds the row of
 * `alert_rounds` and is one transaction, so a server that dies leaves nothing half done.
 *
 * A round evaluates all organizations together. If that fails, it evaluates them one by one; an organization that fails
 * alone is set aside, excluded from the following rounds, and retried with growing delays. One tenant's data therefore
 * never stops the alerts of others.
 */
export class AlertRounds {
  readonly #db: Db;
  readonly #log: Logger;
  readonly #timing: RoundTiming;
  readonly #startedAt = clock.date();
  readonly #startedMs = clock.monotonic();
  readonly #failing: RetryBackoff;
  #timer: Timer | undefined;
  #running: Promise<unknown> = Promise.resolve();
  #isClosed = false;

  constructor({ db, log, timing }: { db: Db; log: Logger; timing?: Partial<RoundTiming> | undefined }) {
    this.#db = db;
    this.#log = log;
    this.#timing = { ...TIMING, ...timing };
    const { retryMs } = this.#timing;
    this.#failing = new RetryBackoff(retryMs === undefined ? {} : { firstMs: retryMs });
  }

  /** The number of organizations whose alerts cannot be evaluated. An operator must act if it stays above zero. */
  failing(): number {
    return this.#failing.size;
  }

  start(): void {
    this.#timer = clock.setTimeout(() => void this.#next(), this.#timing.everyMs).unref();
  }

  /** Evaluates the rules now, unless a server has just done so, and begins the time until the next round anew. */
  async settle(): Promise<void> {
    await this.#running;
    if (this.#isClosed) return;
    clock.clear(this.#timer);
    await this.#next();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clock.clear(this.#timer);
    await this.#running;
  }

  #next(): Promise<unknown> {
    this.#running = this.round()
      .then(
        (done) => {
          if (done !== undefined && done.raised + done.resolved > 0) this.#log.info(done, 'alerts.round');
        },
        (error: unknown) => this.#log.warn({ err: error }, 'alerts.round_failed'),
      )
      .then(() => {
        if (!this.#isClosed) this.start();
      });
    return this.#running;
  }

  /** Runs one round. Returns undefined if another server is running one or has just done so. */
  async round(): Promise<Round | undefined> {
    return withSystem(this.#db, 'evaluate the alert rules', async (tx) => {
      const locked = await lockRound(tx, {
        ...this.#timing,
        startedAt: this.#startedAt,
        hasJustStarted: clock.monotonic() - this.#startedMs < STARTING_MS,
      });
      if (locked === undefined) return undefined;
      const done = await this.#evaluateAll(tx, locked);
      await endRound(tx, locked);
      return { isWhole: locked.isWhole, ...done };
    });
  }

  async #evaluateAll(tx: Tx, round: Locked): Promise<Changes> {
    const except = this.#failing.keys();
    const due = except.filter((orgId) => this.#failing.isDue(orgId));
    let done: Changes;
    try {
      done = await tx.transaction((part) => evaluate(part, round, { except }));
    } catch (error) {
      if (isDatabaseAway(error)) throw error;
      this.#log.warn({ err: error }, 'alerts.evaluated_one_by_one');
      done = { raised: 0, resolved: 0 };
      const failing = new Set(except);
      for (const orgId of await organizationIds(tx)) {
        if (!failing.has(orgId)) done = sum(done, await this.#evaluateOne(tx, round, orgId));
      }
    }
    // Evaluated in full, because the rounds in between did not cover them.
    for (const orgId of due) {
      done = sum(done, await this.#evaluateOne(tx, { ...round, isWhole: true }, orgId));
    }
    return done;
  }

  async #evaluateOne(tx: Tx, round: Locked, orgId: string): Promise<Changes> {
    try {
      const done = await tx.transaction((part) => evaluate(part, round, { only: orgId }));
      this.#failing.release(orgId);
      return done;
    } catch (error) {
      if (isDatabaseAway(error)) throw error;
      const retryMs = this.#failing.put(orgId);
      this.#log.warn({ err: error, orgId, retryMs }, 'alerts.organization_failed');
      return { raised: 0, resolved: 0 };
    }
  }
}
