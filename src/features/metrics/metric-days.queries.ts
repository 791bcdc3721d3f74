import { postgresError } from '../../platform/db/database-errors.ts';
import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import type { StoredBlock } from './metric.queries.ts';

/** SQL of joining hours into days. */

/** Whether samples are not packed yet that arrived before a time, and were taken before another one. */
export async function hasUnpacked(
  db: Db,
  { arrivedBefore, takenBefore = 'infinity' }: { arrivedBefore: Date; takenBefore?: Date | 'infinity' },
): Promise<boolean> {
  const { rows } = await withSystem(db, 'find samples that are packed late', (tx) =>
    tx.raw<{ rows: { found: boolean }[] }>(
      `select exists (select from metric_samples
        where arrived_at < ?::timestamptz and begins_at < ?::timestamptz) as found`,
      [arrivedBefore, takenBefore],
    ),
  );
  return rows[0]?.found ?? false;
}

/** The first day (UTC) from a time on that is summed up, ends by `before`, and has hours that are not joined. */
export async function firstDayToJoin(
  db: Db,
  { from, before }: { from: Date | '-infinity'; before: Date },
): Promise<Date | undefined> {
  const { rows } = await withSystem(db, 'find the days of metrics that are to be joined', (tx) =>
    tx.raw<{ rows: { day: Date | null }[] }>(
      `select min(date_trunc('day', begins_at, 'utc')) as day from metric_minutes
      where begins_at >= ?::timestamptz
        and begins_at < least(?::timestamptz, (select summed_up_until from metric_progress))`,
      [from, before],
    ),
  );
  return rows[0]?.day ?? undefined;
}

/** Lets one transaction at a time join hours, until it ends: two that read the same day would each write their hours only. */
export async function awaitTurnToJoin(tx: Tx): Promise<void> {
  await tx.raw(`select pg_advisory_xact_lock(hashtextextended('join hours of metrics', 0))`);
}

/** The rows of devices in a stretch of time, locked. */
export async function lockRows(
  tx: Tx,
  table: 'metric_minutes' | 'metric_days',
  deviceIds: readonly string[],
  { from, to }: { from: Date; to: Date },
): Promise<StoredBlock[]> {
  const { rows } = await tx.raw<{ rows: StoredBlock[] }>(
    `select device_id as "deviceId", begins_at as "beginsAt", block from ${table}
    where device_id = any(?::uuid[]) and begins_at >= ?::timestamptz and begins_at < ?::timestamptz
    order by device_id, begins_at for update`,
    [[...deviceIds], from, to],
  );
  return rows;
}

/** Removes hours, which are locked. */
export async function removeHours(
  tx: Tx,
  hours: readonly Pick<StoredBlock, 'deviceId' | 'beginsAt'>[],
): Promise<void> {
  await tx.raw(
    `delete from metric_minutes m using unnest(?::uuid[], ?::timestamptz[]) as joined (device_id, begins_at)
    where m.device_id = joined.device_id and m.begins_at = joined.begins_at`,
    [hours.map(({ deviceId }) => deviceId), hours.map(({ beginsAt }) => beginsAt)],
  );
}

/** When each partition of hours ends that ends by then. */
export async function endsOfHours(db: Db, until: Date): Promise<Date[]> {
  const { rows } = await withSystem(db, 'find partitions of hours of metrics', (tx) =>
    tx.raw<{ rows: { ends: Date }[] }>(
      `select ends from partitions_of('metric_minutes') where ends <= ?::timestamptz order by ends`,
      [until],
    ),
  );
  return rows.map(({ ends }) => ends);
}

/**
 * Drops the partition of hours that ends at a time, if it is empty. What uses the table is waited for during a moment only,
 * because everything behind would wait too.
 * @returns whether it was dropped; `in use` if the moment was over
 */
export async function dropEmptyHours(db: Db, ends: Date): Promise<boolean | 'in use'> {
  try {
    return await withSystem(db, 'drop an empty partition of hours of metrics', async (tx) => {
      await tx.raw(`set local lock_timeout = '300ms'`);
      // Readers go on; no hour can be written between the look and the drop.
      await tx.raw('lock table metric_minutes in exclusive mode');
      const { rows: left } = await tx.raw<{ rows: { found: boolean }[] }>(
        `select exists (select from metric_minutes
          where begins_at >= ?::timestamptz - interval '1 day' and begins_at < ?::timestamptz) as found`,
        [ends, ends],
      );
      if (left[0]?.found !== false) return false;
      const { rows } = await tx.raw<{ rows: { dropped: boolean }[] }>(
        `select drop_partition('metric_minutes', ?::timestamptz) as dropped`,
        [ends],
      );
      return rows[0]?.dropped ?? false;
    });
  } catch (error) {
    if (postgresError(error)?.code === LOCK_NOT_AVAILABLE) return 'in use';
    throw error;
  }
}

const LOCK_NOT_AVAILABLE = '55P03';
