import { z } from 'zod';
import { clock, DAY_MS, HOUR_MS } from '../../clock.ts';
import { groupedBy } from '../../platform/grouped-by.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import { defineJob } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import { Turns } from '../../platform/turns.ts';
import { joiningDay } from './joined-day.ts';
import {
  awaitTurnToJoin,
  dropEmptyHours,
  endsOfHours,
  firstDayToJoin,
  hasUnpacked,
  lockRows,
  removeHours,
} from './metric-days.queries.ts';
import { dayOver, forDevices } from './metric.job.ts';
import { addPartitions, holdDevices, putBlocks, type StoredBlock } from './metric.queries.ts';

const Joined = z.object({
  /** Days of which hours were joined. */
  days: z.number(),
  /** Partitions of hours. */
  dropped: z.number(),
});
type Joined = z.infer<typeof Joined>;

const JOIN = defineJob({ name: 'metrics.join-hours', input: z.object({}), result: Joined, inCluster: 1 });

/** Joins the hours of days that are over, which takes half of the space. */
export function joinHoursRegularly({ jobs, db }: { jobs: Jobs; db: Db }): void {
  jobs.handle(JOIN, ({ signal }) => joinHours(db, clock.now(), signal));
  // After the days are summed up.
  jobs.schedule(JOIN, { cron: '40 4 * * *', timeZone: 'UTC' }, {});
}

/** Samples that arrived so long ago are packed, unless packing is behind. */
const PACKED_WITHIN_MS = 3 * HOUR_MS;

/** A device's day takes some 6 ms, and its device cannot move meanwhile. */
const DEVICES_AT_ONCE = 20;

/**
 * Joins the hours of each device and day into one row, of days that are over and summed up. Joining them twice changes
 * nothing, and hours that come later are added, so a run that ends in the middle is simply repeated.
 */
export async function joinHours(db: Db, now: number, signal?: AbortSignal): Promise<Joined> {
  // Samples of these days may still come, and there would be no partition for their hours.
  const arrivedBefore = new Date(now - PACKED_WITHIN_MS);
  if (await hasUnpacked(db, { arrivedBefore })) return { days: 0, dropped: 0 };
  const before = dayOver(now);
  let days = 0;
  let from: Date | '-infinity' = '-infinity';
  for (;;) {
    const day = await firstDayToJoin(db, { from, before });
    if (day === undefined) break;
    const range = { from: day, to: new Date(day.getTime() + DAY_MS) };
    await addPartitions(db, 'metric_days', { from: day, to: day });
    const rows = { table: 'metric_minutes', column: 'begins_at', atOnce: DEVICES_AT_ONCE, ...range } as const;
    await forDevices(db, rows, (ids) => joinHoursOf(db, ids, range), signal);
    days += 1;
    // What cannot be joined stays as it is.
    from = range.to;
  }
  // A day after it became empty: a backup that began before still finds the hours there.
  let dropped = 0;
  for (const ends of await endsOfHours(db, new Date(before.getTime() - DAY_MS))) {
    signal?.throwIfAborted();
    const isDropped = await dropEmptyHours(db, ends);
    // The next run tries again.
    if (isDropped === 'in use') break;
    if (isDropped) dropped += 1;
  }
  return { days, dropped };
}

async function joinHoursOf(
  db: Db,
  deviceIds: readonly string[],
  range: { from: Date; to: Date },
): Promise<void> {
  await withSystem(db, 'join the hours of a day of devices', async (tx) => {
    await holdDevices(tx, deviceIds);
    await awaitTurnToJoin(tx);
    const hours = groupedBy(
      await lockRows(tx, 'metric_minutes', deviceIds, range),
      ({ deviceId }) => deviceId,
    );
    const known = await lockRows(tx, 'metric_days', deviceIds, range);
    const days = new Map(known.map((row) => [row.deviceId, row]));
    const joined: StoredBlock[] = [];
    const replaced: StoredBlock[] = [];
    const turns = new Turns();
    for (const [deviceId, rows] of hours) {
      const day = await turns.finish(joiningDay(days.get(deviceId), rows, range.from));
      if (day === undefined) continue;
      joined.push({ deviceId, beginsAt: range.from, block: day.block });
      replaced.push(...day.hours);
    }
    await putBlocks(tx, 'metric_days', joined);
    await removeHours(tx, replaced);
  });
}
