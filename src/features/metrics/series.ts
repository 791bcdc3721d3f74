import { MINUTE_MS, HOUR_MS } from '../../clock.ts';
import { type MetricSample, SAMPLE_SECONDS, SAMPLES_KEPT_HOURS } from '../../protocol/index.ts';
import type { Pieces } from '../../platform/turns.ts';
import { SERIES_MAX } from './block.ts';
import { type Block, kindOf, type MetricName, PLAIN_METRICS, type ReadBlock, type Series } from './metric.ts';

/** How far ahead of the server's clock a sample may be. It then counts as taken now. */
const AHEAD_MS = 5 * MINUTE_MS;
/** An agent keeps samples for a day; sending them takes it some minutes more. */
const OLDEST_MS = (SAMPLES_KEPT_HOURS + 1) * HOUR_MS;

/** Why samples are not kept, with their numbers. */
export interface RefusedSamples {
  invalid: number;
  future: number;
  old: number;
}

/** The samples of one message as blocks, by the beginning of their hour in ms. */
export function blocksOfSamples(
  samples: readonly (MetricSample | null)[],
  now: number,
): { blocks: Map<number, Block>; refused: RefusedSamples } {
  const refused: RefusedSamples = { invalid: 0, future: 0, old: 0 };
  const timed = samples.flatMap((sample) => {
    if (sample === null) {
      refused.invalid += 1;
      return [];
    }
    const at = Date.parse(sample.at);
    const kept = at <= now + AHEAD_MS && at >= now - OLDEST_MS;
    if (!kept) refused[at > now ? 'future' : 'old'] += 1;
    return kept ? [{ sample, at: Math.min(at, now) }] : [];
  });
  return { blocks: blocksByHour(timed.sort((a, b) => a.at - b.at)), refused };
}

/**
 * Samples as blocks, by the beginning of their hour in ms.
 * @param samples  with their times in ms, the oldest first
 */
export function blocksByHour(samples: Iterable<{ sample: MetricSample; at: number }>): Map<number, Block> {
  const hours = new Map<number, SeriesSet>();
  for (const { sample, at } of samples) {
    const hour = Math.floor(at / HOUR_MS) * HOUR_MS;
    const series = hours.get(hour) ?? new SeriesSet();
    hours.set(hour, series);
    addSample(series, sample, Math.floor((at - hour) / MINUTE_MS));
  }
  const blocks = new Map<number, Block>();
  for (const [hour, series] of hours) {
    blocks.set(hour, { stepSeconds: SAMPLE_SECONDS, series: fewest(series.all) });
  }
  return blocks;
}

function addSample(series: SeriesSet, sample: MetricSample, minute: number): void {
  for (const metric of PLAIN_METRICS) series.append(metric, '', minute, sample[metric]);
  for (const volume of sample.volumes ?? []) {
    if (volume === null) continue;
    series.append('volumeUsedBytes', volume.volume, minute, volume.usedBytes);
    series.append('volumeTotalBytes', volume.volume, minute, volume.totalBytes);
  }
  for (const busy of sample.processes ?? []) {
    if (busy === null) continue;
    series.append('processCpuPercent', busy.process, minute, busy.cpuPercent);
    series.append('processRamPercent', busy.process, minute, busy.ramPercent);
  }
}

/** Series with one figure for each slot. */
class SeriesSet {
  readonly #series = new Map<MetricName, Map<string, Series>>();

  /** @param slot  not before the last one of the series; the same one again replaces its figure */
  append(metric: MetricName, label: string, slot: number, value: number | undefined): void {
    if (value === undefined) return;
    const series = this.#of(metric, label);
    if (series.slots.at(-1) === slot) series.avg[series.slots.length - 1] = value;
    else {
      series.slots.push(slot);
      series.avg.push(value);
    }
  }

  /** @param slots  behind the last one of the series */
  extend(metric: MetricName, label: string, slots: readonly number[], values: readonly number[]): void {
    const series = this.#of(metric, label);
    series.slots.push(...slots);
    series.avg.push(...values);
  }

  #of(metric: MetricName, label: string): Series {
    let ofMetric = this.#series.get(metric);
    if (ofMetric === undefined) {
      ofMetric = new Map();
      this.#series.set(metric, ofMetric);
    }
    let series = ofMetric.get(label);
    if (series === undefined) {
      const figures: number[] = [];
      series = { metric, label, slots: [], min: figures, avg: figures, max: figures };
      ofMetric.set(label, series);
    }
    return series;
  }

  get all(): Series[] {
    return [...this.#series.values()].flatMap((ofMetric) => [...ofMetric.values()]);
  }
}

const keyOf = (metric: MetricName, label: string) => `${metric} ${label}`;

/** Figures of the whole device go first, then volumes, then processes; of these the ones that are there most. */
const RANK = { plain: 0, volume: 1, process: 2 };
const rankOf = ({ metric }: Pick<Series, 'metric'>) => RANK[kindOf(metric).of ?? 'plain'];

/** At most as many series as a block holds: more are noise of a device that changes its names all the time. */
const fewest = (series: readonly Series[]): readonly Series[] =>
  fewestOf(series, ({ slots }) => slots.length);

const fewestOf = <T extends Pick<Series, 'metric'>>(
  series: readonly T[],
  lengthOf: (one: T) => number,
): readonly T[] =>
  series.length <= SERIES_MAX
    ? series
    : series.toSorted((a, b) => rankOf(a) - rankOf(b) || lengthOf(b) - lengthOf(a)).slice(0, SERIES_MAX);

/** Several blocks of one device and hour as one. Where they have a minute in common, the later block counts. */
export function mergeBlocks(blocks: readonly Block[]): Block {
  const [first] = blocks;
  if (first !== undefined && blocks.length === 1) return first;
  return { stepSeconds: first?.stepSeconds ?? SAMPLE_SECONDS, series: fewest(seriesByMinute(blocks)) };
}

function seriesByMinute(blocks: readonly Block[]): Series[] {
  const minutes = new Map<number, { series: Series; at: number }[]>();
  for (const { series: all } of blocks) {
    for (const series of all) {
      for (const [at, slot] of series.slots.entries()) {
        const known = minutes.get(slot);
        if (known === undefined) minutes.set(slot, [{ series, at }]);
        else known.push({ series, at });
      }
    }
  }
  const merged = new SeriesSet();
  for (const [slot, figures] of [...minutes].sort(([a], [b]) => a - b)) {
    for (const { series, at } of figures) merged.append(series.metric, series.label, slot, series.avg[at]);
  }
  return merged.all;
}

/** The same block as one that begins so many slots earlier. */
const inLaterSlots = (block: ReadBlock, later: number): ReadBlock => ({
  ...block,
  slots: block.slots.map((slot) => slot + later),
  series: block.series.map((series) => ({ ...series, slots: series.slots.map((slot) => slot + later) })),
});

/**
 * Blocks of one device and day as one that begins with the day, with all their series.
 * @param stretches  with the time in ms at which each begins; where they have a minute in common, the later one counts
 */
export function joinBlocks(
  stretches: readonly { beginsAt: number; block: ReadBlock }[],
  day: number,
): ReadBlock {
  const blocks = stretches.map(({ beginsAt, block }) =>
    inLaterSlots(block, Math.round((beginsAt - day) / (block.stepSeconds * 1000))),
  );
  const slots = [...new Set(blocks.flatMap((block) => block.slots))].sort((a, b) => a - b);
  let last = -1;
  const inOrder = blocks.every((block) => {
    const before = last;
    last = Math.max(last, block.slots.at(-1) ?? -1);
    return block.slots.every((slot) => slot > before) && namesEachOnce(block);
  });
  const series = inOrder ? oneAfterAnother(blocks) : seriesByMinute(blocks);
  const hasUnknown = blocks.some((block) => block.hasUnknown);
  return { stepSeconds: blocks[0]?.stepSeconds ?? SAMPLE_SECONDS, slots, series, hasUnknown };
}

/** Not so if a stored block is damaged: one more byte in a name can make two series one, with their figures in any order. */
const namesEachOnce = ({ series }: Block) =>
  new Set(series.map(({ metric, label }) => keyOf(metric, label))).size === series.length;

function oneAfterAnother(blocks: readonly Block[]): Series[] {
  const all = new SeriesSet();
  for (const { series } of blocks) {
    for (const { metric, label, slots, avg } of series) all.extend(metric, label, slots, avg);
  }
  return all.all;
}

interface Sum {
  min: number;
  max: number;
  total: number;
  count: number;
}

/** Minimum, average and maximum of each series in steps of any length from `from` on. */
export class Summary {
  readonly #from: number;
  readonly #to: number;
  readonly #stepMs: number;
  readonly #series = new Map<string, { metric: MetricName; label: string; sums: Map<number, Sum> }>();

  /** @param range  in ms since 1970; `to` is not part of it */
  constructor({ from, to, stepMs }: { from: number; to: number; stepMs: number }) {
    this.#from = from;
    this.#to = to;
    this.#stepMs = stepMs;
  }

  /** Adds a block, in pieces: each series is one. @param beginsAt  the time of the block's first slot, in ms */
  *adding({ stepSeconds, series }: Block, beginsAt: number): Pieces<void> {
    for (const { metric, label, slots, min, avg, max } of series) {
      const key = keyOf(metric, label);
      const known = this.#series.get(key) ?? { metric, label, sums: new Map<number, Sum>() };
      this.#series.set(key, known);
      for (const [at, slot] of slots.entries()) {
        const time = beginsAt + slot * stepSeconds * 1000;
        if (time < this.#from || time >= this.#to) continue;
        const step = Math.floor((time - this.#from) / this.#stepMs);
        const [low, mean, high] = [min[at] ?? 0, avg[at] ?? 0, max[at] ?? 0];
        const sum = known.sums.get(step);
        if (sum === undefined) known.sums.set(step, { min: low, max: high, total: mean, count: 1 });
        else {
          sum.min = Math.min(sum.min, low);
          sum.max = Math.max(sum.max, high);
          sum.total += mean;
          sum.count += 1;
        }
      }
      yield;
    }
  }

  /** Each slot is a step. */
  get series(): readonly Series[] {
    const found = [...this.#series.values()].filter(({ sums }) => sums.size > 0);
    return fewestOf(found, ({ sums }) => sums.size).map(({ metric, label, sums }) => {
      const entries = [...sums].sort(([a], [b]) => a - b);
      return {
        metric,
        label,
        slots: entries.map(([step]) => step),
        min: entries.map(([, { min }]) => min),
        avg: entries.map(([, { total, count }]) => total / count),
        max: entries.map(([, { max }]) => max),
      };
    });
  }
}
