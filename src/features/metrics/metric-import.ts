import { setImmediate as othersTurn } from 'node:timers/promises';
import { DAY_MS, MINUTE_MS } from '../../clock.ts';
import type { MetricSample } from '../../protocol/index.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import { type Stretch, stretchOf, together } from './averages.ts';
import { packBlock } from './block.ts';
import type { Block } from './metric.ts';
import { finished } from '../../platform/turns.ts';
import { addToAverages, putDays, type SummedUpDay, summingUpDay } from './metric.job.ts';
import { addPartitions, holdDevices, putBlocks, type StoredBlock } from './metric.queries.ts';
import { blocksByHour } from './series.ts';

/** So many days before the last one have figures of each minute, which the regular job sums up later. */
const DETAILED_DAYS = 2;
/** The days before are only summed up, for which this is enough. */
const COARSE_MS = 5 * MINUTE_MS;

const dayOf = (at: number) => Math.floor(at / DAY_MS) * DAY_MS;

/**
 * Stores the past of a device, as if the server had received and packed its samples: figures of each minute for the last
 * days, and those of quarters and hours for the days before.
 * @param sampleAt  what the device measured at a time in ms
 */
export async function importHistory(
  db: Db,
  deviceId: string,
  { from, to, sampleAt }: { from: number; to: number; sampleAt: (at: number) => MetricSample },
): Promise<void> {
  const first = dayOf(from);
  const detailed = Math.max(first, dayOf(to) - DETAILED_DAYS * DAY_MS);
  await addPartitions(db, 'metric_minutes', { from: new Date(detailed), to: new Date(to) });
  for (const table of ['metric_quarters', 'metric_hours'] as const) {
    await addPartitions(db, table, { from: new Date(first), to: new Date(detailed) });
  }
  function* samples(begin: number, end: number, everyMs: number) {
    for (let at = begin; at < end; at += everyMs) yield { at, sample: sampleAt(at) };
  }
  const days: SummedUpDay[] = [];
  const averaged: Record<'hours' | 'days', Stretch[]> = { hours: [], days: [] };
  const average = (day: number, blocks: ReadonlyMap<number, Block>) => {
    const hours = [...blocks].flatMap(([beginsAt, block]) => stretchOf(block, beginsAt) ?? []);
    averaged.hours.push(...hours);
    const whole = day + DAY_MS > to ? undefined : together(hours, day);
    if (whole !== undefined) averaged.days.push(whole);
  };
  for (let day = first; day < detailed; day += DAY_MS) {
    const blocks = blocksByHour(samples(day, day + DAY_MS, COARSE_MS));
    days.push(finished(summingUpDay(deviceId, new Date(day), blocks)));
    average(day, blocks);
    await othersTurn();
  }
  const minutes: StoredBlock[] = [];
  for (let day = detailed; day < to; day += DAY_MS) {
    const blocks = blocksByHour(samples(day, Math.min(to, day + DAY_MS), MINUTE_MS));
    average(day, blocks);
    for (const [hour, block] of blocks) {
      minutes.push({ deviceId, beginsAt: new Date(hour), block: packBlock(block, { hasRange: false }) });
    }
    await othersTurn();
  }
  await withSystem(db, 'store the past figures of a device', async (tx) => {
    await holdDevices(tx, [deviceId]);
    await putDays(tx, days);
    await putBlocks(tx, 'metric_minutes', minutes);
    await addToAverages(tx, new Map([[deviceId, averaged]]));
  });
}
