import { setImmediate as othersTurn } from 'node:timers/promises';
import { z } from 'zod';
import { clock, DAY_MS, HOUR_MS, MINUTE_MS } from '../../clock.ts';
import type { DeviceHub } from '../../hub/index.ts';
import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import { defineJob } from '../../platform/jobs/definition.ts';
import { groupedBy } from '../../platform/grouped-by.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import { RowPruner } from '../../platform/jobs/row-pruner.ts';
import type { Logger } from '../../platform/logger.ts';
import { type Pieces, Turns } from '../../platform/turns.ts';
import { packBlock, readableBlock, readingBlock } from './block.ts';
import type { Block } from './metric.ts';
import { AVERAGES_CHANGED } from '../conditions/index.ts';
import { averagesAfter, type Stretch, stretchOf, together } from './averages.ts';
import { CHOSEN_RETENTION } from './metric.model.ts';
import {
  addComingPartitions,
  addPartitions,
  arrivedSamples,
  devicesWith,
  dropPartitions,
  firstDayToSumUp,
  holdDevices,
  lockAverages,
  lockMinutes,
  minutesBetween,
  noteSummedUp,
  putAverages,
  putBlocks,
  type StoredBlock,
} from './metric.queries.ts';
import { hasUnpacked } from './metric-days.queries.ts';
import { KEPT_DAYS } from './metric.schema.ts';
import { RESOLUTIONS } from './resolution.ts';
import { mergeBlocks, Summary } from './series.ts';
import { SAMPLES_KEPT_HOURS } from '../../protocol/index.ts';

const Packed = z.object({ devices: z.number(), dropped: z.number() });

const PACK = defineJob({ name: 'metrics.pack', input: z.object({}), result: Packed, inCluster: 1 });
const SUM_UP = defineJob({
  name: 'metrics.sum-up',
  input: z.object({}),
  result: z.object({ days: z.number() }),
  inCluster: 1,
});
const END = defineJob({
  name: 'metrics.end',
  input: z.object({}),
  result: z.object({ dropped: z.number(), removed: z.number() }),
  inCluster: 1,
});

interface Parts {
  db: Db;
  log: Logger;
}

/** Packs samples each hour, sums up days that are over, and ends what was kept long enough. */
export function keepMetricsRegularly({
  jobs,
  db,
  log,
  hub,
}: Parts & { jobs: Jobs; hub: Pick<DeviceHub, 'events'> }): void {
  jobs.handle(PACK, async ({ signal }) => {
    const packed = await packSamples(db, hourOver(clock.now()), signal);
    if (packed.devices > 0) hub.events.publish(AVERAGES_CHANGED, {});
    return packed;
  });
  jobs.handle(SUM_UP, async ({ signal }) => {
    const days = await sumUpDays(db, dayOver(clock.now()), signal);
    if (days > 0) hub.events.publish(AVERAGES_CHANGED, {});
    return { days };
  });
  jobs.handle(END, ({ signal }) => endMetrics({ db, log }, clock.now(), signal));
  jobs.schedule(PACK, { cron: '6 * * * *', timeZone: 'UTC' }, {});
  // Samples of the day before yesterday may be packed until 4 o'clock.
  jobs.schedule(SUM_UP, { cron: '15 4 * * *', timeZone: 'UTC' }, {});
  jobs.schedule(END, { cron: '10 4 * * *', timeZone: 'UTC' }, {});
}

/** A transaction that began in an hour may commit some minutes later, and its samples count as arrived in that hour. */
const hourOver = (now: number) => new Date(Math.floor((now - 5 * MINUTE_MS) / HOUR_MS) * HOUR_MS);

/** Samples of a day may come so long after it, and be packed three hours after that. */
export const dayOver = (now: number): Date =>
  new Date(Math.floor((now - (SAMPLES_KEPT_HOURS + 4) * HOUR_MS) / DAY_MS) * DAY_MS);

/** Samples are accepted so long after their day by the clock of a server, which may differ from that of the database. */
const ARRIVES_WITHIN_MS = (SAMPLES_KEPT_HOURS + 2) * HOUR_MS;

const DEVICES_AT_ONCE = 50;
const FIRST_ID = '00000000-0000-0000-0000-000000000000';

/** Calls `work` with slices of the devices that have rows in a stretch of time. Returns how many devices they were. */
export async function forDevices(
  db: Db,
  {
    atOnce = DEVICES_AT_ONCE,
    ...rows
  }: Omit<Parameters<typeof devicesWith>[1], 'after' | 'atMost'> & { atOnce?: number },
  work: (deviceIds: readonly string[]) => Promise<void>,
  signal: AbortSignal | undefined,
): Promise<number> {
  let count = 0;
  let after = FIRST_ID;
  for (;;) {
    signal?.throwIfAborted();
    const ids = await devicesWith(db, { ...rows, after, atMost: atOnce });
    if (ids.length > 0) await work(ids);
    count += ids.length;
    after = ids.at(-1) ?? after;
    if (ids.length < atOnce) return count;
  }
}

/**
 * Packs the samples that arrived before a time, and drops the partitions that hold nothing else. Packing them twice
 * changes nothing, so a run that ends in the middle is simply repeated.
 */
export async function packSamples(
  db: Db,
  before: Date,
  signal?: AbortSignal,
): Promise<z.infer<typeof Packed>> {
  await addComingPartitions(db, 'metric_samples', 1);
  await addComingPartitions(db, 'metric_minutes', SAMPLES_KEPT_HOURS + 3);
  const rows = { table: 'metric_samples', column: 'arrived_at', from: '-infinity', to: before } as const;
  const devices = await forDevices(db, rows, (ids) => packDevices(db, ids, before), signal);
  return { devices, dropped: await dropPartitions(db, 'metric_samples', before) };
}

async function packDevices(db: Db, deviceIds: readonly string[], before: Date): Promise<void> {
  await withSystem(db, 'pack the samples of devices', async (tx) => {
    await holdDevices(tx, deviceIds);
    const arrived = await arrivedSamples(tx, deviceIds, before);
    const hours = groupedBy(arrived, hourOf);
    const known = await lockMinutes(
      tx,
      [...hours.values()].flatMap(([first]) => first ?? []),
    );
    const earlier = groupedBy(known, hourOf);
    const packed: StoredBlock[] = [];
    const stretches = new Map<string, { hours: Stretch[] }>();
    for (const [key, blocks] of hours) {
      const [row] = blocks;
      if (row === undefined) continue;
      const block = mergeBlocks(
        [...(earlier.get(key) ?? []), ...blocks].flatMap((one) => readableBlock(one.block) ?? []),
      );
      packed.push({ ...row, block: packBlock(block, { hasRange: false }) });
      const stretch = stretchOf(block, row.beginsAt.getTime());
      if (stretch !== undefined) {
        const ofDevice = stretches.get(row.deviceId);
        if (ofDevice === undefined) stretches.set(row.deviceId, { hours: [stretch] });
        else ofDevice.hours.push(stretch);
      }
      await othersTurn();
    }
    await putBlocks(tx, 'metric_minutes', packed);
    await addToAverages(tx, stretches);
  });
}

/** Counts the stretches of devices, which are held, in their averages. */
export async function addToAverages(
  tx: Tx,
  stretches: ReadonlyMap<string, { hours?: readonly Stretch[]; days?: readonly Stretch[] }>,
): Promise<void> {
  const ids = [...stretches.keys()].sort();
  if (ids.length === 0) return;
  const stored = await lockAverages(tx, ids);
  await putAverages(
    tx,
    ids.map((deviceId) => ({
      deviceId,
      ...averagesAfter(stored.get(deviceId), stretches.get(deviceId) ?? {}),
    })),
  );
}

const hourOf = ({ deviceId, beginsAt }: StoredBlock) => `${deviceId} ${beginsAt.getTime()}`;

/**
 * Sums up the days before a time that are not summed up yet, the oldest first, up to one of which samples wait to be packed:
 * a day is summed up once, and would lack them. Returns how many they were.
 */
export async function sumUpDays(db: Db, before: Date, signal?: AbortSignal): Promise<number> {
  let days = 0;
  for (;;) {
    const day = await firstDayToSumUp(db);
    if (day === undefined || day >= before) return days;
    const range = { from: day, to: new Date(day.getTime() + DAY_MS) };
    const arrivedBy = new Date(range.to.getTime() + ARRIVES_WITHIN_MS);
    if (await hasUnpacked(db, { arrivedBefore: arrivedBy, takenBefore: range.to })) return days;
    await addPartitions(db, 'metric_quarters', range);
    await addPartitions(db, 'metric_hours', range);
    const rows = { table: 'metric_minutes', column: 'begins_at', ...range } as const;
    await forDevices(db, rows, (ids) => sumUpDevices(db, ids, range), signal);
    await noteSummedUp(db, range.to);
    days += 1;
  }
}

async function sumUpDevices(
  db: Db,
  deviceIds: readonly string[],
  { from, to }: { from: Date; to: Date },
): Promise<void> {
  await withSystem(db, 'sum up a day of devices', async (tx) => {
    await holdDevices(tx, deviceIds);
    const days: SummedUpDay[] = [];
    const stretches = new Map<string, { days: Stretch[] }>();
    const rows = groupedBy(await minutesBetween(tx, deviceIds, { from, to }), ({ deviceId }) => deviceId);
    const turns = new Turns();
    for (const [deviceId, minutes] of rows) {
      const blocks: [beginsAt: number, block: Block][] = [];
      for (const row of minutes) {
        const block = await turns.finish(readingBlock(row.block));
        if (block !== undefined) blocks.push([row.beginsAt.getTime(), block]);
      }
      days.push(await turns.finish(summingUpDay(deviceId, from, blocks)));
      const hours = blocks.flatMap(([beginsAt, block]) => stretchOf(block, beginsAt) ?? []);
      const day = together(hours, from.getTime());
      if (day !== undefined) stretches.set(deviceId, { days: [day] });
    }
    await putDays(tx, days);
    await addToAverages(tx, stretches);
  });
}

/** The two rows of a device and day. */
export interface SummedUpDay {
  quarters: StoredBlock;
  hours: StoredBlock;
}

/** @param blocks  of the day, with the time in ms at which each begins */
export function* summingUpDay(
  deviceId: string,
  day: Date,
  blocks: Iterable<readonly [beginsAt: number, block: Block]>,
): Pieces<SummedUpDay> {
  const range = { from: day.getTime(), to: day.getTime() + DAY_MS };
  const inQuarters = new Summary({ ...range, stepMs: 15 * MINUTE_MS });
  const inHours = new Summary({ ...range, stepMs: HOUR_MS });
  for (const [beginsAt, block] of blocks) {
    yield* inQuarters.adding(block, beginsAt);
    yield* inHours.adding(block, beginsAt);
  }
  // Not compact before the next release, so that the former one can read them (docs/decisions/metrics.md).
  const row = (stepSeconds: number, { series }: Summary): StoredBlock => ({
    deviceId,
    beginsAt: day,
    block: packBlock({ stepSeconds, series }, { hasRange: true }),
  });
  return { quarters: row(900, inQuarters), hours: row(3600, inHours) };
}

export async function putDays(tx: Tx, days: readonly SummedUpDay[]): Promise<void> {
  await putBlocks(
    tx,
    'metric_quarters',
    days.map(({ quarters }) => quarters),
  );
  await putBlocks(
    tx,
    'metric_hours',
    days.map(({ hours }) => hours),
  );
}

/** Samples that could not be packed for so long end unpacked. */
const UNPACKED_MS = 2 * DAY_MS;

/** Drops the partitions whose time is over, and removes rows of organizations that keep theirs shorter. */
export async function endMetrics(
  { db, log }: Parts,
  now: number,
  signal?: AbortSignal,
): Promise<{ dropped: number; removed: number }> {
  const daysAgo = (days: number) => new Date(now - days * DAY_MS);
  let dropped = await dropPartitions(db, 'metric_samples', new Date(now - UNPACKED_MS));
  dropped += await dropPartitions(db, 'presence_changes', daysAgo(KEPT_DAYS.hourDays));
  for (const { table, days } of RESOLUTIONS) dropped += await dropPartitions(db, table, daysAgo(days));
  const round = await new RowPruner({ db, rules: CHOSEN_RETENTION, log }).prune(signal);
  return { dropped, removed: Object.values(round.removed).reduce((sum, count) => sum + count, 0) };
}
