import { clock } from '../../clock.ts';
import { isDatabaseAway } from '../../platform/db/database-errors.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import { RepeatedCheck } from '../../platform/jobs/repeated-check.ts';
import type { Logger } from '../../platform/logger.ts';
import { RetryBackoff } from '../../platform/retry-backoff.ts';
import { type DueFilter, followRules, lockDue, storeMembers } from './watched-filters.queries.ts';

const EVERY_MS = 5000;
/**
 * Keeps the devices that match the filters of rules. Every server has one; each filter is a transaction of its own, so that
 * one that fails stops no other: it is tried again with growing delays.
 */
export class WatchedFilters {
  readonly #db: Db;
  readonly #log: Logger;
  readonly #failing = new RetryBackoff();
  readonly #checks: RepeatedCheck;

  /** @param backgroundDb  the pool of background work, so that requests and devices do not wait for its connections */
  constructor({ backgroundDb, log }: { backgroundDb: Db; log: Logger }) {
    this.#db = backgroundDb;
    this.#log = log;
    this.#checks = new RepeatedCheck({
      everyMs: EVERY_MS,
      check: () => this.evaluateAll(),
      onFailing: (error) => log.warn({ err: error }, 'alerts.filters_not_evaluated'),
    });
  }

  /** The number of filters that cannot be evaluated. An operator must act if it stays above zero. */
  failing(): number {
    return this.#failing.size;
  }

  start(): void {
    this.#checks.start();
  }

  settle(): Promise<void> {
    return this.#checks.settle();
  }

  close(): Promise<void> {
    return this.#checks.close();
  }

  /** Evaluates all filters that are due. */
  async evaluateAll(): Promise<void> {
    await withSystem(this.#db, 'find the filters of alert rules', followRules);
    const startedAt = clock.date();
    while (!this.#checks.isClosed && (await this.#evaluateOne(startedAt)));
    this.#failing.keepOnly(new Set(this.#failing.notDue()));
  }

  /** @returns whether there may be more */
  async #evaluateOne(startedAt: Date): Promise<boolean> {
    let due: DueFilter | undefined;
    try {
      return await withSystem(this.#db, 'evaluate a filter of alert rules', async (tx) => {
        due = await lockDue(tx, { without: this.#failing.notDue(), startedAt });
        if (due === undefined) return false;
        await storeMembers(tx, due);
        this.#failing.release(due.filterId);
        return true;
      });
    } catch (error) {
      if (isDatabaseAway(error) || due === undefined) throw error;
      const retryMs = this.#failing.put(due.filterId);
      this.#log.warn({ err: error, filterId: due.filterId, retryMs }, 'alerts.filter_not_evaluated');
      return true;
    }
  }
}
