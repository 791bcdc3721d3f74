import { setImmediate as othersTurn } from 'node:timers/promises';
import { clock, DAY_MS, HOUR_MS } from '../../clock.ts';
import { PresenceReason } from '../../protocol/index.ts';
import type { Context } from '../../platform/context.ts';
import { invalid } from '../../platform/errors.ts';
import { groupedBy } from '../../platform/grouped-by.ts';
import { Turns } from '../../platform/turns.ts';
import { findDevice } from '../devices/index.ts';
import { conditionsOf } from '../filters/index.ts';
import { assertOrganizationAccess, readOrganization } from '../organizations/index.ts';
import { hourlyAverages } from './averages.ts';
import { readableBlock, readingBlock } from './block.ts';
import { type Forecast, forecastOf, type UsedPoint } from './forecast.ts';
import { type Gap, gapsBetween, reasonOf, type Turn } from './gaps.ts';
import { type Block, kindOf, type MetricName, type ReadBlock, type Series } from './metric.ts';
import { MetricRetentionChoice } from './metric.model.ts';
import {
  daysWithoutHours,
  type DetailedBlock,
  detailsOf,
  hoursOfDevices,
  minutesBetween,
  type NewestSample,
  newestSamples,
  presenceChanges,
  summedUp,
} from './metric.queries.ts';
import {
  type DeviceMetrics,
  KEPT_DAYS,
  type MetricHours,
  type MetricHoursQuery,
  type MetricNow,
  type MetricQuery,
  type MetricRetention,
  type MetricSeries,
  type MetricsNow,
  type MetricsNowQuery,
  type RankedMetric,
} from './metric.schema.ts';
import { stepFor, tableFor } from './resolution.ts';
import { joinBlocks, mergeBlocks, Summary } from './series.ts';

/** The history of a device. Throws `validation_failed` for a range that has no end, or is too long. */
export async function readMetrics(ctx: Context, id: string, query: MetricQuery): Promise<DeviceMetrics> {
  const device = await findDevice(ctx, id);
  const now = clock.now();
  const to = query.to?.getTime() ?? now;
  const asked = query.from?.getTime() ?? to - DAY_MS;
  if (asked >= to) throw invalid('query.from', 'must be before `to`');
  const kept = await keptBy(ctx, device.orgId);
  const stepMs = stepFor({ from: asked, to, points: query.points }, now, kept);
  if (stepMs === undefined) throw invalid('query.points', 'must be more for a range as long as this');
  const from = Math.floor(asked / stepMs) * stepMs;
  const wanted = query.metrics === undefined ? undefined : new Set(query.metrics);
  const history = await readHistory(ctx, id, { from, to, stepMs }, (metric) => wanted?.has(metric) ?? true);
  // Before its enrollment and after now, a device has no gaps.
  const range = { from: Math.max(from, device.enrolledAt.getTime()), to: Math.min(to, now) };
  const gaps = gapsBetween(history.sampled, range, stepMs);
  const turns = gaps.length === 0 ? [] : await turnsOf(ctx, id, { from, to });
  return {
    step: stepMs / 1000,
    series: history.series.map((series) => shown(series, from, stepMs)),
    gaps: gaps.map((gap) => ({
      from: new Date(gap.from).toISOString(),
      to: new Date(gap.to).toISOString(),
      reason: reasonOf(gap, turns),
    })),
  };
}

interface Range extends Gap {
  stepMs: number;
}

async function readHistory(
  ctx: Context,
  id: string,
  range: Range,
  wants: (metric: MetricName) => boolean,
): Promise<{ series: readonly Series[]; sampled: Gap[] }> {
  const summary = new Summary(range);
  const sampled: Gap[] = [];
  // A device that changes its names all the time has thousands of series.
  const turns = new Turns();
  const add = async (beginsAt: number, blocks: readonly ReadBlock[]) => {
    await turns.finish(summary.adding(mergeBlocks(blocks), beginsAt));
    for (const { slots, stepSeconds } of blocks) {
      const slotMs = stepSeconds * 1000;
      const begins = slots.map((slot) => beginsAt + slot * slotMs);
      for (const begin of begins) sampled.push({ from: begin, to: begin + slotMs });
    }
  };
  const [first, last] = [new Date(range.from), new Date(range.to)];
  const table = tableFor(range.stepMs);
  let details = new Date(Math.floor(range.from / HOUR_MS) * HOUR_MS);
  if (table !== 'metric_minutes') {
    const days = await summedUp(ctx, table, [id], { from: first, to: last });
    for (const { beginsAt, block } of days) {
      const found = await turns.finish(readingBlock(block, wants));
      if (found !== undefined) await add(beginsAt.getTime(), [found]);
    }
    // Days are summed up in their order, so minutes are needed behind the last one.
    const newest = days.at(-1)?.beginsAt.getTime();
    const kept = Math.max(details.getTime(), clock.now() - KEPT_DAYS.minuteDays * DAY_MS);
    details = new Date(newest === undefined ? kept : Math.max(kept, newest + DAY_MS));
  }
  const minutes = await detailsOf(ctx, [id], { from: details, to: last });
  for (const { beginsAt, blocks } of await stretchesOf(minutes, wants, turns)) await add(beginsAt, blocks);
  return { series: summary.series, sampled };
}

interface Stretch {
  beginsAt: number;
  blocks: ReadBlock[];
}

/** The blocks of each day that is joined, and of each hour of the other days. @param rows  in the order of `detailsOf` */
async function stretchesOf(
  rows: readonly DetailedBlock[],
  wants: (metric: MetricName) => boolean,
  turns: Turns,
): Promise<Stretch[]> {
  const stretches: (Stretch & { endsAt: number; late: { beginsAt: number; block: ReadBlock }[] })[] = [];
  for (const { beginsAt, block, isDay } of rows) {
    const found = await turns.finish(readingBlock(block, wants));
    if (found === undefined) continue;
    const at = beginsAt.getTime();
    const last = stretches.at(-1);
    if (last === undefined || at >= last.endsAt) {
      stretches.push({ beginsAt: at, endsAt: at + (isDay ? DAY_MS : HOUR_MS), blocks: [found], late: [] });
    } else if (at === last.beginsAt && last.endsAt - at === HOUR_MS) last.blocks.push(found);
    // What came after the day was joined.
    else last.late.push({ beginsAt: at, block: found });
  }
  return stretches.map(({ beginsAt, blocks, late }) => {
    if (late.length === 0) return { beginsAt, blocks };
    const day = blocks.map((block) => ({ beginsAt, block }));
    return { beginsAt, blocks: [joinBlocks([...day, ...late], beginsAt)] };
  });
}

export const rounded = (value: number) => Math.round(value * 100) / 100;

function shown({ metric, label, slots, min, avg, max }: Series, from: number, stepMs: number): MetricSeries {
  const { of } = kindOf(metric);
  return {
    metric,
    ...(of === undefined ? {} : { labels: { [of]: label } }),
    points: slots.map((slot, at) => [
      from + slot * stepMs,
      rounded(min[at] ?? 0),
      rounded(avg[at] ?? 0),
      rounded(max[at] ?? 0),
    ]),
  };
}

async function turnsOf(ctx: Context, id: string, range: Gap): Promise<Turn[]> {
  return (await turnsOfDevices(ctx, [id], range)).get(id) ?? [];
}

/** When devices connected and disconnected in a stretch of time, and their last such turn before it. */
export async function turnsOfDevices(
  ctx: Pick<Context, 'tx' | 'caller'>,
  deviceIds: readonly string[],
  { from, to }: Gap,
): Promise<Map<string, Turn[]>> {
  const turns = new Map<string, Turn[]>();
  for (const { deviceId, at, state, reason } of await presenceChanges(ctx, deviceIds, {
    from: new Date(from),
    to: new Date(to),
  })) {
    const known = PresenceReason.safeParse(reason);
    if (!known.success) continue;
    const turn = { at: at.getTime(), state, reason: known.data };
    const ofDevice = turns.get(deviceId);
    if (ofDevice === undefined) turns.set(deviceId, [turn]);
    else ofDevice.push(turn);
  }
  return turns;
}

/**
 * The figures of devices for each minute of a stretch of time, as one block for each hour or day, in order. Of a day that
 * is joined all minutes are there.
 */
export async function minutesOfDevices(
  ctx: Pick<Context, 'tx' | 'caller'>,
  deviceIds: readonly string[],
  { from, to }: { from: Date; to: Date },
  wants: (metric: MetricName) => boolean,
): Promise<Map<string, (Block & { beginsAt: number })[]>> {
  const rows = await detailsOf(ctx, deviceIds, { from, to });
  const devices = new Map<string, (Block & { beginsAt: number })[]>();
  for (const [deviceId, ofDevice] of groupedBy(rows, (row) => row.deviceId)) {
    const stretches = await stretchesOf(ofDevice, wants, new Turns());
    devices.set(
      deviceId,
      stretches.map(({ beginsAt, blocks }) => ({ beginsAt, ...mergeBlocks(blocks) })),
    );
    await othersTurn();
  }
  return devices;
}

/** As many devices are looked at. */
const DEVICES_MAX = 20_000;
/** Unpacking all devices takes long enough to hold up heartbeats, so others have their turn after so many. */
export const DEVICES_AT_ONCE = 500;
const FORECAST_DAYS = 30;
const SUMMED_UP_WITHIN_DAYS = 4;
/** Forecasts take one sample in so many hours. */
const FORECAST_EVERY_HOURS = 6;

/** The devices, or volumes, with the highest or lowest figures now. */
export async function readMetricsNow(
  ctx: Context,
  { orgId, filterId, metric, order, limit }: MetricsNowQuery,
): Promise<MetricsNow> {
  if (orgId !== undefined) await assertOrganizationAccess(ctx, orgId);
  const conditions = filterId === undefined ? undefined : await conditionsOf(ctx, filterId);
  const samples = await newestSamples(ctx, { orgId, conditions, atMost: DEVICES_MAX + 1 });
  const isComplete = samples.length <= DEVICES_MAX;
  const sign = order === 'asc' ? 1 : -1;
  const figures: MetricNow[] = [];
  for (const [at, sample] of samples.slice(0, DEVICES_MAX).entries()) {
    // Unpacking them all takes long enough to hold up heartbeats.
    if (at % DEVICES_AT_ONCE === DEVICES_AT_ONCE - 1) await othersTurn();
    figures.push(...figuresNow(sample, metric));
  }
  const data = figures
    .sort((a, b) => sign * (a.value - b.value) || a.hostname.localeCompare(b.hostname))
    .slice(0, limit);
  if (metric !== 'volumePercent') return { data, isComplete };
  const forecasts = await forecastsOf(ctx, [...new Set(data.map(({ deviceId }) => deviceId))]);
  return {
    data: data.map((one) => ({
      ...one,
      forecast: forecasts.get(volumeKey(one.deviceId, one.volume ?? '')) ?? null,
    })),
    isComplete,
  };
}

/** The averages of the last 24 hours of devices, for small charts. */
export async function readMetricHours(
  ctx: Context,
  { deviceIds, metric }: MetricHoursQuery,
): Promise<MetricHours> {
  const devices = await hoursOfDevices(ctx, deviceIds);
  return {
    data: devices.map(({ deviceId, until, hours }) => ({
      deviceId,
      until: until.toISOString(),
      averages: hourlyAverages(hours, metric).map((value) => (value === null ? null : rounded(value))),
    })),
  };
}

const isOfVolume = (metric: MetricName) => metric === 'volumeUsedBytes' || metric === 'volumeTotalBytes';

/** The newest figure of a device, or of each of its volumes. */
function figuresNow(sample: NewestSample, metric: RankedMetric): MetricNow[] {
  const { deviceId, orgId, hostname, displayName } = sample;
  const wants = metric === 'volumePercent' ? isOfVolume : (one: MetricName) => one === metric;
  const block = readableBlock(sample.block, wants);
  const slot = block?.slots.at(-1);
  if (block === undefined || slot === undefined) return [];
  const at = new Date(sample.beginsAt.getTime() + slot * block.stepSeconds * 1000).toISOString();
  const device = { deviceId, orgId, hostname, displayName, at };
  if (metric !== 'volumePercent') {
    const value = block.series[0]?.avg.at(-1);
    return value === undefined ? [] : [{ ...device, value }];
  }
  return volumesOf(block).flatMap(({ volume, used, total }) => {
    const [usedBytes, totalBytes] = [used.at(-1)?.[1], total.at(-1)?.[1]];
    if (usedBytes === undefined || totalBytes === undefined || totalBytes === 0) return [];
    return [{ ...device, volume, usedBytes, totalBytes, value: rounded((100 * usedBytes) / totalBytes) }];
  });
}

/** The volumes of a block, with slots and average bytes. A block may have thousands. */
function volumesOf({ series }: Block) {
  const pointsOf = (found: Series | undefined) =>
    found?.slots.map((slot, at): [number, number] => [slot, found.avg[at] ?? 0]) ?? [];
  return Array.from(
    groupedBy(series, ({ label }) => label),
    ([volume, ofVolume]) => ({
      volume,
      used: pointsOf(ofVolume.find(({ metric }) => metric === 'volumeUsedBytes')),
      total: pointsOf(ofVolume.find(({ metric }) => metric === 'volumeTotalBytes')),
    }),
  );
}

const volumeKey = (deviceId: string, volume: string) => `${deviceId} ${volume}`;

/** By device and volume. */
async function forecastsOf(
  ctx: Context,
  deviceIds: readonly string[],
): Promise<Map<string, Forecast | null>> {
  const now = clock.now();
  const range = { from: new Date(now - FORECAST_DAYS * DAY_MS), to: new Date(now + DAY_MS) };
  const days = await summedUp(ctx, 'metric_hours', deviceIds, range);
  // The last days are not summed up yet.
  const recent = now - SUMMED_UP_WITHIN_DAYS * DAY_MS;
  const hours = await minutesBetween(ctx.tx, deviceIds, {
    from: new Date(recent),
    to: range.to,
    everyHours: FORECAST_EVERY_HOURS,
  });
  // An organization may keep the sums for shorter than the minutes.
  const joined = await daysWithoutHours(ctx.tx, deviceIds, new Date(recent - DAY_MS));
  const points = new Map<string, UsedPoint[]>();
  for (const { deviceId, beginsAt, block } of [...days, ...joined, ...hours]) {
    const found = readableBlock(block, isOfVolume);
    if (found === undefined) continue;
    // One point of an hour, or one in some hours of a day.
    const everySlots = (FORECAST_EVERY_HOURS * HOUR_MS) / 1000 / found.stepSeconds;
    for (const { volume, used, total } of volumesOf(found)) {
      const totals = new Map(total);
      const key = volumeKey(deviceId, volume);
      const known = points.get(key) ?? [];
      points.set(key, known);
      for (const [at, [slot, bytes]] of used.entries()) {
        const size = totals.get(slot);
        if (size === undefined || (at > 0 && slot % everySlots !== 0)) continue;
        known.push({ at: beginsAt.getTime() + slot * found.stepSeconds * 1000, used: bytes, total: size });
      }
    }
  }
  return new Map([...points].map(([key, all]) => [key, forecastOf(all)]));
}

/** An organization as routes name it, with what it keeps. */
type NamedRetention = MetricRetention & { name: string };

export async function readMetricRetention(ctx: Context, orgId: string): Promise<NamedRetention> {
  const { name } = await readOrganization(ctx, orgId);
  return { name, ...(await keptBy(ctx, orgId)) };
}

async function keptBy({ tx }: Context, orgId: string): Promise<MetricRetention> {
  const choice = await MetricRetentionChoice.query(tx).findById(orgId);
  const { minuteDays, quarterDays, hourDays } = choice ?? KEPT_DAYS;
  return { minuteDays, quarterDays, hourDays };
}

/** Rows that are too old by the new rule are removed by the next daily run and not at once, so a mistake can be undone. */
export async function changeMetricRetention(
  ctx: Context,
  orgId: string,
  after: MetricRetention,
): Promise<NamedRetention> {
  const { name, ...before } = await readMetricRetention(ctx, orgId);
  await MetricRetentionChoice.query(ctx.tx)
    .insert({ ...after, orgId, updatedAt: clock.date() })
    .onConflict('org_id')
    .merge();
  ctx.recordChange(before, after);
  return { name, ...after };
}
