import { z } from 'zod';
import { clock } from '../../../clock.ts';
import type { Logger } from '../../logger.ts';
import type { Db } from '../pool.ts';
import { batchSize, overdueOrganizations, removeOverdueRows, type RetentionRule } from './retention-rule.ts';
import { withSystem } from '../transaction.ts';

/** A pause between batches, so that other work gets at the same rows and the same disk. */
const PAUSE_MS = 50;

export interface RowPrunerOptions {
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

/** What one batch is taken from. */
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

  /** Answers the shares that may have more. */
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
      const { rows } = await tx.raw<{ rows: { id: string; days: number }[] }>(overdueOrganizations(rule));
      return rows.map(({ id, days }) => ({ rule, orgId: id, days }));
    });
  }

  /** Nothing where another server is at the same table, which then does the rest too. */
  async #removeSome({ rule, orgId, days }: Share): Promise<number> {
    return withSystem(this.#options.db, 'remove expired rows', async (tx) => {
      const { rows } = await tx.raw<{ rows: { got: boolean }[] }>(
        `select pg_try_advisory_xact_lock(hashtextextended('prune ' || ?, 0)) as got`,
        [rule.table],
      );
      if (rows[0]?.got !== true) return 0;
      const { rowCount } = await tx.raw<{ rowCount: number }>(
        removeOverdueRows(rule, days),
        orgId === undefined ? [] : [orgId],
      );
      return rowCount;
    });
  }
}
