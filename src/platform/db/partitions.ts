import { clock, HOUR_MS } from '../../clock.ts';
import type { Logger } from '../logger.ts';
import type { Tx } from './transaction.ts';

/**
 * The partitions of a table by time. Functions of the database create and drop them, because the serving roles own no
 * table (migrations/0050_log_partitions.sql, 0056_partitions_by_id.sql).
 */

/** The time of a partition: from `begins` until before `ends`. */
export interface Partition {
  begins: Date;
  ends: Date;
}

/** Creates the missing partitions for what is written now and in the next days. */
export async function addComingPartitions(tx: Tx, table: string, days: number): Promise<void> {
  await tx.raw(`select add_partitions(?, now() - interval '1 day', now() + make_interval(days => ?::int))`, [
    table,
    days,
  ]);
}

/** The partitions of a table that end by then, the oldest first, without a first one that has no beginning. */
export async function endedPartitions(tx: Tx, table: string, until: Date): Promise<Partition[]> {
  const { rows } = await tx.raw<{ rows: Partition[] }>(
    `select begins, ends from partitions_of(?) where begins is not null and ends <= ?::timestamptz order by ends`,
    [table, until],
  );
  return rows;
}

/**
 * Drops a partition whose time is over. Throws if the table is in use at that moment. No statement of the transaction may
 * have used the table, which it locks for itself.
 * @returns whether it was there
 */
export async function dropPartition(tx: Tx, table: string, { ends }: Partition): Promise<boolean> {
  const { rows } = await tx.raw<{ rows: { dropped: boolean }[] }>(
    'select drop_partition(?, ?::timestamptz) as dropped',
    [table, ends],
  );
  return rows[0]?.dropped ?? false;
}

interface ComingParts {
  /** Creates what is missing. */
  add: () => Promise<void>;
  log: Logger;
  /** What is logged if that fails. */
  failure: string;
  /** How long to wait after that. By default the next call tries again. */
  retryMs?: number;
}

/**
 * Sees to it that there are partitions for what is written. The job that ends partitions does so too, but it may not have
 * run for weeks.
 */
export class ComingPartitions {
  readonly #parts: ComingParts;
  #checkedAt = Number.NEGATIVE_INFINITY;
  #failedAt = Number.NEGATIVE_INFINITY;
  #check: Promise<void> | undefined;

  constructor(parts: ComingParts) {
    this.#parts = parts;
  }

  /**
   * Looks once an hour by the time of day, which a machine that slept has moved on. Never throws. Must be called before
   * the transaction that writes is opened: a partition that is created waits for those that use the table.
   */
  async ensure(): Promise<void> {
    if (Math.abs(clock.now() - this.#checkedAt) < HOUR_MS) return;
    if (Math.abs(clock.now() - this.#failedAt) < (this.#parts.retryMs ?? 0)) return;
    this.#check ??= this.#add();
    await this.#check;
  }

  async #add(): Promise<void> {
    const { add, log, failure } = this.#parts;
    try {
      await add();
      this.#checkedAt = clock.now();
    } catch (error) {
      // Mostly the partition is there: they are created days ahead.
      log.warn({ err: error }, failure);
      this.#failedAt = clock.now();
    } finally {
      this.#check = undefined;
    }
  }
}
