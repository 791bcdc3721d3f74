import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import type { Logger } from '../../platform/logger.ts';
import {
  BATCH_SIZE,
  RAISE_DISK,
  raiseOffline,
  RESOLVE_DISK,
  RESOLVE_UNWATCHED,
  resolveOffline,
} from './alert-rules.ts';

export interface RoundTiming {
  everyMs: number;
  /** How often everything is looked at, and not only what has changed. */
  wholeEveryMs: number;
}

const TIMING: RoundTiming = { everyMs: 30_000, wholeEveryMs: 600_000 };

/** After so long without a round nobody was watching: the servers were down. */
const GAP = `interval '90 seconds'`;
/** What the fleet has to come back after that, before anybody is told who did not. */
const GRACE = `interval '10 minutes'`;
/** How long ago a server has just started. */
const STARTING_MS = 120_000;
/** A server that starts over and over again does not put that off for ever. */
const GRACE_AT_MOST_EVERY = `interval '1 hour'`;

export interface Round {
  isWhole: boolean;
  raised: number;
  resolved: number;
}

interface Locked {
  isWhole: boolean;
  /** Devices are still given time to come back. */
  isEarly: boolean;
}

/**
 * Looks for what alerts are raised for, round after round. Servers on one database take turns: whoever holds the row
 * of `alert_rounds` looks, in one transaction with what it raises, so a server that dies has left nothing half done.
 */
export class AlertRounds {
  readonly #db: Db;
  readonly #log: Logger;
  readonly #timing: RoundTiming;
  readonly #startedAt = new Date();
  readonly #startedMs = performance.now();
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<unknown> = Promise.resolve();
  #isClosed = false;

  constructor({ db, log, timing }: { db: Db; log: Logger; timing?: Partial<RoundTiming> | undefined }) {
    this.#db = db;
    this.#log = log;
    this.#timing = { ...TIMING, ...timing };
  }

  start(): void {
    this.#timer = setTimeout(() => {
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
    }, this.#timing.everyMs).unref();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#running;
  }

  /** One round, or nothing where another server has just had one or is at it. */
  async round(): Promise<Round | undefined> {
    return withSystem(this.#db, 'look for what alerts are raised for', async (tx) => {
      const locked = await this.#lock(tx);
      if (locked === undefined) return undefined;
      const { isWhole, isEarly } = locked;
      // Statistics know nothing of rows that the statement itself makes: it would read all of them for each.
      await tx.raw('set local enable_seqscan = off');
      let raised = 0;
      let resolved = await affected(tx, resolveOffline(isWhole));
      if (!isEarly) raised += await inPortions(tx, raiseOffline(isWhole));
      if (isWhole) {
        for (const sql of [RESOLVE_DISK, ...RESOLVE_UNWATCHED]) resolved += await affected(tx, sql);
        raised += await inPortions(tx, RAISE_DISK);
      }
      await tx.raw(`update alert_rounds set through = now() ${isWhole ? ', whole_at = now()' : ''}`);
      return { isWhole, raised, resolved };
    });
  }

  async #lock(tx: Tx): Promise<Locked | undefined> {
    const { everyMs, wholeEveryMs } = this.#timing;
    const hasJustStarted = performance.now() - this.#startedMs < STARTING_MS;
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

async function affected(tx: Tx, sql: string): Promise<number> {
  return (await tx.raw<{ rowCount: number }>(sql)).rowCount;
}

async function inPortions(tx: Tx, sql: string): Promise<number> {
  let all = 0;
  let some = BATCH_SIZE;
  while (some === BATCH_SIZE) {
    some = await affected(tx, sql);
    all += some;
  }
  return all;
}
