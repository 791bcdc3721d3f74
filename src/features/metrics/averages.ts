import { DAY_MS, HOUR_MS } from '../../clock.ts';
import {
  AVERAGED_METRICS,
  type AveragedMetric,
  averageKey,
  type Averages,
  type AverageWindow,
} from '../conditions/index.ts';
import type { Block, Series } from './metric.ts';

/** The averages of a device over its last hours and days, from what was packed. Pure. */

/** What one hour or day adds to the averages. */
export interface Stretch {
  /** The time in ms at which it begins. */
  beginsAt: number;
  /** The number of minutes with figures. */
  minutes: number;
  figures: Partial<Record<AveragedMetric, number>>;
}

/** The figures of a device in a block, whose first slot is at `beginsAt` (in ms); undefined if it has none. */
export function stretchOf({ series }: Block, beginsAt: number): Stretch | undefined {
  const figures: Stretch['figures'] = {};
  let minutes = 0;
  const put = (metric: AveragedMetric, value: number, count: number) => {
    figures[metric] = value;
    minutes = Math.max(minutes, count);
  };
  for (const one of series) {
    const metric = AVERAGED_METRICS.find((name) => name === one.metric);
    if (metric !== undefined && one.avg.length > 0) put(metric, meanOf(one), one.avg.length);
    if (one.metric !== 'volumeUsedBytes' || one.avg.length === 0) continue;
    const total = series.find(
      ({ metric: other, label }) => other === 'volumeTotalBytes' && label === one.label,
    );
    const size = total === undefined ? 0 : meanOf(total);
    const percent = size > 0 ? (meanOf(one) / size) * 100 : 0;
    // Of the volumes the fullest, as in heartbeats.
    if (size > 0 && percent >= (figures.diskPercent ?? 0)) put('diskPercent', percent, one.avg.length);
  }
  return minutes === 0 ? undefined : { beginsAt, minutes, figures };
}

const meanOf = ({ avg }: Series) => avg.reduce((sum, value) => sum + value, 0) / Math.max(1, avg.length);

/** Several stretches as one, each figure weighted with the minutes; undefined if there are none. */
export function together(stretches: readonly Stretch[], beginsAt: number): Stretch | undefined {
  const figures: Stretch['figures'] = {};
  for (const metric of AVERAGED_METRICS) {
    let [sum, weight] = [0, 0];
    for (const stretch of stretches) {
      const value = stretch.figures[metric];
      if (value === undefined) continue;
      sum += value * stretch.minutes;
      weight += stretch.minutes;
    }
    if (weight > 0) figures[metric] = sum / weight;
  }
  const minutes = stretches.reduce((sum, stretch) => sum + stretch.minutes, 0);
  return minutes === 0 ? undefined : { beginsAt, minutes, figures };
}

/** The newest stretches of one length that follow each other. */
export class Recent {
  readonly #spanMs: number;
  readonly #count: number;
  /** By the time at which each begins. */
  readonly #known = new Map<number, Stretch>();
  #until: number | undefined;

  constructor({ spanMs, count }: { spanMs: number; count: number }, stored?: StoredRecent) {
    this.#spanMs = spanMs;
    this.#count = count;
    if (stored?.until === undefined) return;
    for (let at = 0; at * WIDTH < stored.figures.length; at += 1) {
      const [minutes, ...values] = stored.figures.slice(at * WIDTH, (at + 1) * WIDTH);
      if (typeof minutes !== 'number' || minutes <= 0) continue;
      const figures: Stretch['figures'] = {};
      for (const [place, metric] of AVERAGED_METRICS.entries()) {
        const value = values[place];
        if (typeof value === 'number') figures[metric] = value;
      }
      this.put({ beginsAt: stored.until - (at + 1) * spanMs, minutes, figures });
    }
  }

  /** Adds a stretch, in place of what was known of its time. One that is too old is left out. */
  put(stretch: Stretch): void {
    this.#until = Math.max(this.#until ?? 0, stretch.beginsAt + this.#spanMs);
    this.#known.set(stretch.beginsAt, stretch);
    for (const beginsAt of this.#known.keys()) if (!this.#isRecent(beginsAt)) this.#known.delete(beginsAt);
  }

  /** The average of the newest stretches. */
  newest(count: number): Stretch['figures'] {
    if (this.#until === undefined) return {};
    const from = this.#until - count * this.#spanMs;
    return (
      together(
        [...this.#known.values()].filter(({ beginsAt }) => beginsAt >= from),
        from,
      )?.figures ?? {}
    );
  }

  get stored(): StoredRecent {
    const until = this.#until;
    if (until === undefined) return { until, figures: [] };
    const oldest = Math.min(...this.#known.keys());
    const length = Math.round((until - oldest) / this.#spanMs);
    const figures = Array.from({ length }, (_, at) => {
      const stretch = this.#known.get(until - (at + 1) * this.#spanMs);
      if (stretch === undefined) return Array.from({ length: WIDTH }, () => null);
      return [stretch.minutes, ...AVERAGED_METRICS.map((metric) => stretch.figures[metric] ?? null)];
    });
    return { until, figures: figures.flat() };
  }

  #isRecent(beginsAt: number): boolean {
    return beginsAt >= (this.#until ?? 0) - this.#count * this.#spanMs;
  }
}

/** The averages of a metric in each of the last hours, the newest at the end. */
export function hourlyAverages(figures: StoredRecent['figures'], metric: AveragedMetric): (number | null)[] {
  const place = 1 + AVERAGED_METRICS.indexOf(metric);
  const hours = Array.from({ length: HOURS.count }, (_, at) => figures[at * WIDTH + place] ?? null);
  return hours.reverse();
}

/** As it is stored: for each stretch the minutes and then the figures, in the order of `AVERAGED_METRICS`. */
export interface StoredRecent {
  /** When the newest stretch ends, in ms. */
  until: number | undefined;
  figures: readonly (number | null)[];
}
const WIDTH = 1 + AVERAGED_METRICS.length;

const HOURS = { spanMs: HOUR_MS, count: 24 };
const DAYS = { spanMs: DAY_MS, count: 7 };

export interface StoredAverages {
  hours: StoredRecent;
  days: StoredRecent;
}

/** The averages of a device after more was packed. */
export function averagesAfter(
  stored: StoredAverages | undefined,
  { hours = [], days = [] }: { hours?: readonly Stretch[]; days?: readonly Stretch[] },
): StoredAverages & { averages: Averages } {
  const recentHours = new Recent(HOURS, stored?.hours);
  const recentDays = new Recent(DAYS, stored?.days);
  for (const hour of hours) recentHours.put(hour);
  for (const day of days) recentDays.put(day);
  const averages: Record<string, number> = {};
  const windows: readonly (readonly [AverageWindow, Stretch['figures']])[] = [
    ['1h', recentHours.newest(1)],
    ['1d', recentHours.newest(HOURS.count)],
    ['7d', recentDays.newest(DAYS.count)],
  ];
  for (const [window, figures] of windows) {
    for (const metric of AVERAGED_METRICS) {
      const value = figures[metric];
      // Both backends of conditions see the same number.
      if (value !== undefined) averages[averageKey(metric, window)] = Math.round(value * 100) / 100;
    }
  }
  return { hours: recentHours.stored, days: recentDays.stored, averages };
}
