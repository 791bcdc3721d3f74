import { clock, type Timer } from '../../clock.ts';
import type { Db } from '../../platform/db/pool.ts';
import { isDatabaseAway } from '../../platform/db/database-errors.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import type { Logger } from '../../platform/logger.ts';
import { RetryBackoff } from '../../platform/retry-backoff.ts';
import {
  BATCH_SIZE,
  type Coverage,
  raiseDisk,
  raiseOffline,
  resolveDisk,
  resolveOffline,
  resolveUnmonitored,
} from './alert-rules.ts';

export interface RoundTiming {
  everyMs: number;
  /** How often a round examines everything instead of only what changed. */
  wholeEveryMs: number;
  /** The first delay before an organization that failed is evaluated again. */
  retryMs?: number;
}

const TIMING: RoundTiming = { everyMs: 30_000, wholeEveryMs: 600_000 };

/** After this time without a round, the servers must have been down. */
const GAP = `interval '90 seconds'`;
/** After an outage the fleet has this time to reconnect before offline alerts are raised. */
const GRACE = `interval '10 minutes'`;
/** How long a server counts as just started. */
const STARTING_MS = 120_000;
/** A server that restarts repeatedly cannot postpone the alerts forever. */
const GRACE_AT_MOST_EVERY = `interval '1 hour'`;

export interface Round {
  isWhole: boolean;
  raised: number;
  resolved: number;
}

interface Locked {
  isWhole: boolean;
  /** Devices still have time to reconnect. */
  isEarly: boolean;
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
      const locked = await this.#lock(tx);
      if (locked === undefined) return undefined;
      // The statistics do not cover rows that a statement creates itself; without this, it scans all of them per row.
      await tx.raw('set local enable_seqscan = off');
      const done = await this.#evaluateAll(tx, locked);
      await tx.raw(`update alert_rounds set through = now() ${locked.isWhole ? ', whole_at = now()' : ''}`);
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

  async #lock(tx: Tx): Promise<Locked | undefined> {
    const { everyMs, wholeEveryMs } = this.#timing;
    const hasJustStarted = clock.monotonic() - this.#startedMs < STARTING_MS;
    const { rows } = await tx.raw<{ rows: Locked[] }>(
      `with mine as materialized (
        select * from alert_rounds where through <= clock_timestamp() - ? * interval '1 millisecond'
        for update skip locked
      ), watched as (
        update alert_rounds r set watched_since = now() from mine
        where mine.through < now() - ${GAP} or ? and mine.watched_since < now() - ${GRACE_AT_MOST_EVERY}
          and mine.watched_since < ? and exists (select from device_presence where since < ?)
        returning r.watched_since
      ), since as (
        select mine.whole_at, coalesce((select watched_since from watched), mine.watched_since) + ${GRACE} as early_until
        from mine
      )
      select whole_at <= now() - ? * interval '1 millisecond' or whole_at < early_until and early_until <= now() as "isWhole",
        early_until > now() as "isEarly"
      from since`,
      [everyMs / 2, hasJustStarted, this.#startedAt, this.#startedAt, wholeEveryMs],
    );
    return rows[0];
  }
}

type Changes = Pick<Round, 'raised' | 'resolved'>;

const sum = (one: Changes, other: Changes): Changes => ({
  raised: one.raised + other.raised,
  resolved: one.resolved + other.resolved,
});

/** A transaction, or a savepoint within one. */
type Session = Pick<Tx, 'raw'>;

async function evaluate(tx: Session, { isWhole, isEarly }: Locked, coverage: Coverage): Promise<Changes> {
  const run = (sql: string) => affected(tx, sql, coverage);
  let raised = 0;
  let resolved = await run(resolveOffline(isWhole, coverage));
  if (!isEarly) raised += await inBatches(() => run(raiseOffline(isWhole, coverage)));
  if (isWhole) {
    for (const sql of [resolveDisk(coverage), ...resolveUnmonitored(coverage)]) resolved += await run(sql);
    raised += await inBatches(() => run(raiseDisk(coverage)));
  }
  return { raised, resolved };
}

async function affected(tx: Session, sql: string, { only, except = [] }: Coverage): Promise<number> {
  const bindings = { ...(only === undefined ? {} : { only }), except: [...except] };
  return (await tx.raw<{ rowCount: number }>(sql, bindings)).rowCount;
}

async function inBatches(raiseBatch: () => Promise<number>): Promise<number> {
  let total = 0;
  let count = BATCH_SIZE;
  while (count === BATCH_SIZE) {
    count = await raiseBatch();
    total += count;
  }
  return total;
}

async function organizationIds(tx: Session): Promise<string[]> {
  const { rows } = await tx.raw<{ rows: { id: string }[] }>('select id from organizations order by id');
  return rows.map(({ id }) => id);
}
