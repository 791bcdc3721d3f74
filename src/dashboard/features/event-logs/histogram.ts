import type { LogLevel } from '../../../protocol/index.ts';
import { LEVELS, LEVEL_NAMES, type LogRow } from './log-row.ts';

export interface Bucket {
  /** In milliseconds, included. */
  from: number;
  /** Not included. */
  to: number;
  counts: Record<LogLevel, number>;
  total: number;
}

export interface Histogram {
  buckets: readonly Bucket[];
  /** The length of each bucket in milliseconds. */
  step: number;
  /** The most entries in one bucket. */
  most: number;
  total: number;
}

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Lengths that people read easily. */
const STEPS = [
  100,
  ...[1, 2, 5, 10, 15, 30].map((seconds) => seconds * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * MINUTE),
  ...[1, 2, 3, 6, 12].map((hours) => hours * HOUR),
  ...[1, 2, 7, 14, 30, 90, 365].map((days) => days * DAY),
];

/** Counts the rows over time, in at most `most` buckets of equal length. Rows without a readable time are left out. */
export function histogramOf(rows: readonly LogRow[], most: number): Histogram {
  let first = Infinity;
  let last = -Infinity;
  for (const { at } of rows) {
    if (at === 0) continue;
    first = Math.min(first, at);
    last = Math.max(last, at);
  }
  if (first > last) return { buckets: [], step: 0, most: 0, total: 0 };
  const room = Math.max(1, Math.floor(most));
  const known = STEPS.find((each) => fits(first, last, each, room));
  // A time of many years is divided as it is, without regard to the calendar.
  const step = known ?? Math.ceil((last - first + 1) / room);
  const origin = known === undefined ? first : Math.floor(first / step) * step;
  const buckets: Bucket[] = [];
  for (let from = origin; from <= last; from += step) {
    buckets.push({ from, to: from + step, counts: noCounts(), total: 0 });
  }
  let total = 0;
  for (const { at, level } of rows) {
    const bucket = at === 0 ? undefined : buckets[Math.floor((at - origin) / step)];
    if (bucket === undefined) continue;
    bucket.counts[level]++;
    bucket.total++;
    total++;
  }
  return { buckets, step, total, most: Math.max(...buckets.map((bucket) => bucket.total)) };
}

const noCounts = (): Record<LogLevel, number> => ({
  critical: 0,
  error: 0,
  warning: 0,
  information: 0,
  verbose: 0,
});

const fits = (first: number, last: number, step: number, room: number): boolean =>
  Math.floor(last / step) - Math.floor(first / step) + 1 <= room;

/** "2 errors, 1 warning". */
export function countsText(counts: Record<LogLevel, number>): string {
  return (
    LEVELS.filter((level) => counts[level] > 0)
      .map((level) => `${counts[level].toLocaleString('en')} ${LEVEL_NAMES[level].toLowerCase()}`)
      .join(', ') || 'no entries'
  );
}

/** A description of the picture, for people who cannot see it. */
export function describeHistogram({ buckets, total }: Histogram, timeText: (at: number) => string): string {
  const [first] = buckets;
  const last = buckets.at(-1);
  if (first === undefined || last === undefined) return 'No entries are loaded.';
  const sum = noCounts();
  for (const { counts } of buckets) for (const level of LEVELS) sum[level] += counts[level];
  const busiest = buckets.reduce((most, bucket) => (bucket.total > most.total ? bucket : most), first);
  return `${total.toLocaleString('en')} entries from ${timeText(first.from)} to ${timeText(last.to)}: ${countsText(sum)}. Most of them, ${busiest.total.toLocaleString('en')}, between ${timeText(busiest.from)} and ${timeText(busiest.to)}.`;
}
