import { z } from 'zod';
import { clock } from '../../clock.ts';
import type { Logger } from '../logger.ts';
import type { Db } from '../db/pool.ts';
import {
  batchSize,
  lockForPruning,
  findOverdueOrganizations,
  removeOverdue,
  type RetentionRule,
  expiredRows,
} from '../db/retention-rule.ts';
import { withSystem } from '../db/transaction.ts';
import { defineJob } from './definition.ts';
import type { Jobs } from './jobs.ts';

/** A pause between batches, so that other work gets at the same rows and the same disk. */
const PAUSE_MS = 50;

interface RowPrunerOptions {
  db: Db;
  rules: readonly RetentionRule[];
  log: Logger;
  pauseMs?: number;
}

export const PruneRound = z.object({
  /** By table. */
  removed: z.record(z.string(), z.number()),
  /** How many organizations, or whole tables, were left for the next round because of an error. */
  failed: z.number(),
});
export type PruneRound = z.infer<typeof PruneRound>;

/** The source of one batch. */
interface Share {
  rule: RetentionRule;
  orgId: string | undefined;
  days: number;
}

/**
 * Removes expired rows once a day, table by table in the order of the rules. Each batch is a short
 * transaction of its own. Organizations take turns, a batch each, so that one with millions of old rows does not keep
 * the others waiting; one whose batch fails is left for the next round.
 */
export class RowPruner {
  readonly #options: RowPrunerOptions;

  constructor(options: RowPrunerOptions) {
    this.#options = options;
  }

  /** One round through all rules, until `signal` is aborted. */
  async prune(signal?: AbortSignal): Promise<PruneRound> {
    const round: PruneRound = { removed: {}, failed: 0 };
    for (const rule of this.#options.rules) {
      if (signal?.aborted === true) break;
      let waiting = await this.#attempt(round, { table: rule.table }, () => this.#shares(rule));
      while (waiting !== undefined && waiting.length > 0) {
        waiting = await this.#takeTurns(waiting, round, signal);
      }
    }
    return round;
  }

  /** Returns the shares that may have more. */
  async #takeTurns(shares: readonly Share[], round: PruneRound, signal?: AbortSignal): Promise<Share[]> {
    const more: Share[] = [];
    for (const share of shares) {
      if (signal?.aborted === true) return [];
      const { rule, orgId } = share;
      const removed = await this.#attempt(round, { table: rule.table, orgId }, () => this.#removeSome(share));
      if (removed === undefined) continue;
      round.removed[rule.table] = (round.removed[rule.table] ?? 0) + removed;
      if (removed < batchSize(rule)) continue;
      more.push(share);
      await clock.sleep(this.#options.pauseMs ?? PAUSE_MS);
    }
    return more;
  }

  async #attempt<T>(round: PruneRound, about: object, work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work();
    } catch (error) {
      round.failed += 1;
      this.#options.log.warn({ err: error, ...about }, 'database.rows_not_pruned');
      return undefined;
    }
  }

  async #shares(rule: RetentionRule): Promise<Share[]> {
    if (rule.organization === undefined) return [{ rule, orgId: undefined, days: rule.days }];
    return withSystem(this.#options.db, 'find the organizations with expired rows', async (tx) => {
      return (await findOverdueOrganizations(tx, rule)).map(({ id, days }) => ({ rule, orgId: id, days }));
    });
  }

  async #removeSome({ rule, orgId, days }: Share): Promise<number> {
    return withSystem(this.#options.db, 'remove expired rows', async (tx) => {
      await lockForPruning(tx, rule.table);
      return removeOverdue(tx, rule, { orgId, days });
    });
  }
}

const PRUNE_ROWS = defineJob({
  name: 'database.prune-rows',
  input: z.object({}),
  result: PruneRound,
  attempts: 3,
  backOff: { firstMs: 300_000, longestMs: 3_600_000 },
  inCluster: 1,
  // Removed rows stay removed.
  resumes: true,
});

/** Adds the daily round to the background jobs. */
export function pruneRowsDaily(jobs: Jobs, options: RowPrunerOptions): void {
  const pruner = new RowPruner(options);
  jobs.handle(PRUNE_ROWS, async ({ signal, log }) => {
    const round = await pruner.prune(signal);
    signal.throwIfAborted();
    log.info(round, 'database.old_rows_removed');
    return round;
  });
  jobs.schedule(PRUNE_ROWS, { cron: '17 2 * * *', timeZone: 'UTC' }, {});
}

/** Ended jobs, once they have been kept for the days of their outcome. */
export const jobRetention: readonly RetentionRule[] = [expiredRows('background_jobs', 'id', 0)];
