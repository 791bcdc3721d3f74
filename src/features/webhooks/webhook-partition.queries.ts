import {
  addComingPartitions,
  dropPartition,
  endedPartitions,
  type Partition,
} from '../../platform/db/partitions.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withSystem } from '../../platform/db/transaction.ts';

/** In the order in which their partitions are dropped: a delivery without its event could be neither shown nor sent. */
export const PARTITIONED = ['webhook_deliveries', 'webhook_events'] as const;
export type Partitioned = (typeof PARTITIONED)[number];

/**
 * For how long partitions are created ahead. Longer than for logs, because an event without one lies in the default
 * partition and ends row by row; not longer than that, because each makes planning every query take longer.
 */
const AHEAD_DAYS = 14;

/** Creates the missing partitions. Throws if a table is in use at that moment. */
export async function addComingWebhookPartitions(db: Db): Promise<void> {
  for (const table of PARTITIONED) {
    await withSystem(db, 'create partitions of webhook events', async (tx) => {
      // It waits for the readers of the default partition, and everything behind it waits too.
      await tx.raw(`set local lock_timeout = '300ms'`);
      await addComingPartitions(tx, table, AHEAD_DAYS);
    });
  }
}

export const endedWebhookPartitions = (db: Db, table: Partitioned, until: Date): Promise<Partition[]> =>
  withSystem(db, 'find partitions of webhook events that end', (tx) => endedPartitions(tx, table, until));

/** Throws if the table is in use at that moment. */
export const dropWebhookPartition = (db: Db, table: Partitioned, partition: Partition): Promise<boolean> =>
  withSystem(db, 'drop a partition of webhook events', (tx) => dropPartition(tx, table, partition));
