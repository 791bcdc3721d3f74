import { MINUTE_MS, HOUR_MS } from '../../clock.ts';
import { type MetricSample, SAMPLE_SECONDS, SAMPLES_KEPT_HOURS } from '../../protocol/index.ts';
import { type Block, type Series, SERIES_MAX } from './block.ts';
import { kindOf, type MetricName, PLAIN_METRICS } from './metric.ts';

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
  const hours = new Map<number, Map<string, MinuteSeries>>();
  for (const sample of samples) {
    if (sample === null) refused.invalid += 1;
    else {
      const at = Date.parse(sample.at);
      if (at > now + AHEAD_MS) refused.future += 1;
      else if (at < now - OLDEST_MS) refused.old += 1;
      else addSample(hours, sample, Math.min(at, now));
    }
  }
  const blocks = new Map<number, Block>();
  for (const [hour, series] of hours) {
    blocks.set(hour, { stepSeconds: SAMPLE_SECONDS, series: fewest([...series.values()].map(ascending)) });
  }
  return { blocks, refused };
}

interface MinuteSeries {
  metric: MetricName;
  label: string;
  /** By minute of the hour. */
  points: Map<number, number>;
}

function addSample(hours: Map<number, Map<string, MinuteSeries>>, sample: MetricSample, at: number): void {
  const hour = Math.floor(at / HOUR_MS) * HOUR_MS;
  const minute = Math.floor((at - hour) / MINUTE_MS);
  const all = hours.get(hour) ?? new Map<string, MinuteSeries>();
  hours.set(hour, all);
  const add = (metric: MetricName, label: string, value: number | undefined) => {
    if (value === undefined) return;
    const series = all.get(keyOf(metric, label)) ?? { metric, label, points: new Map<number, number>() };
    all.set(keyOf(metric, label), series);
    series.points.set(minute, value);
  };
  for (const metric of PLAIN_METRICS) add(metric, '', sample[metric]);
  for (const volume of sample.volumes ?? []) {
    if (volume === null) continue;
    add('volumeUsedBytes', volume.volume, volume.usedBytes);
    add('volumeTotalBytes', volume.volume, volume.totalBytes);
  }
  for (const busy of sample.processes ?? []) {
    if (busy === null) continue;
    add('processCpuPercent', busy.process, busy.cpuPercent);
    add('processRamPercent', busy.process, busy.ramPercent);
  }
}

const keyOf = (metric: MetricName, label: string) => `${metric} ${label}`;

function ascending({ metric, label, points }: MinuteSeries): Series {
  const entries = [...points].sort(([a], [b]) => a - b);
  const avg = entries.map(([, value]) => value);
  return { metric, label, slots: entries.map(([slot]) => slot), min: avg, avg, max: avg };
}

/** Figures of the whole device go first, then volumes, then processes; of these the ones that are there most. */
const RANK = { plain: 0, volume: 1, process: 2 };
const rankOf = ({ metric }: Pick<Series, 'metric'>) => RANK[kindOf(metric).of ?? 'plain'];

/** At most as many series as a block holds: more are noise of a device that changes its names all the time. */
const fewest = (series: readonly Series[]): Series[] =>
  series
    .toSorted(
      (a, b) => rankOf(a) - rankOf(b) || b.slots.length - a.slots.length || a.label.localeCompare(b.label),
    )
    .slice(0, SERIES_MAX);

/** Several blocks of one device and hour as one. Where they have a minute in common, the later block counts. */
export function mergeBlocks(blocks: readonly Block[]): Block {
  const [first] = blocks;
  if (first !== undefined && blocks.length === 1) return first;
  const all = new Map<string, MinuteSeries>();
  for (const { series } of blocks) {
    for (const { metric, label, slots, avg } of series) {
      const known = all.get(keyOf(metric, label)) ?? { metric, label, points: new Map<number, number>() };
      all.set(keyOf(metric, label), known);
      for (const [at, slot] of slots.entries()) known.points.set(slot, avg[at] ?? 0);
    }
  }
  return {
    stepSeconds: first?.stepSeconds ?? SAMPLE_SECONDS,
    series: fewest([...all.values()].map(ascending)),
  };
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

  /** @param beginsAt  the time of the block's first slot, in ms */
  add({ stepSeconds, series }: Block, beginsAt: number): void {
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
    }
  }

  /** In a fixed order; each slot is a step. */
  get series(): Series[] {
    const found = [...this.#series.values()].filter(({ sums }) => sums.size > 0);
    return fewest(
      found.map(({ metric, label, sums }) => {
        const entries = [...sums].sort(([a], [b]) => a - b);
        return {
          metric,
          label,
          slots: entries.map(([step]) => step),
          min: entries.map(([, { min }]) => min),
          avg: entries.map(([, { total, count }]) => total / count),
          max: entries.map(([, { max }]) => max),
        };
      }),
    );
  }
}
