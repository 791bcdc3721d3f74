import { DAY_MS, HOUR_MS, MINUTE_MS, WEEK_MS } from '../../clock.ts';
import { KEPT_DAYS, type MetricRetention } from './metric.schema.ts';

/** The tables with a row for each device and time, from the finest to the coarsest, and what keeps each how long. */
export const RESOLUTIONS = [
  { table: 'metric_minutes', column: 'minute_days', choice: 'minuteDays', days: KEPT_DAYS.minuteDays },
  { table: 'metric_days', column: 'minute_days', choice: 'minuteDays', days: KEPT_DAYS.minuteDays },
  { table: 'metric_quarters', column: 'quarter_days', choice: 'quarterDays', days: KEPT_DAYS.quarterDays },
  { table: 'metric_hours', column: 'hour_days', choice: 'hourDays', days: KEPT_DAYS.hourDays },
] as const satisfies readonly {
  table: string;
  column: string;
  choice: keyof MetricRetention;
  days: (typeof KEPT_DAYS)[keyof MetricRetention];
}[];

/** The distances of points that a chart can have. */
const STEPS = [
  MINUTE_MS,
  5 * MINUTE_MS,
  15 * MINUTE_MS,
  30 * MINUTE_MS,
  HOUR_MS,
  3 * HOUR_MS,
  6 * HOUR_MS,
  12 * HOUR_MS,
  DAY_MS,
  WEEK_MS,
] as const;

/** The table whose points are at most a step apart. */
export const tableFor = (stepMs: number) => {
  if (stepMs < 15 * MINUTE_MS) return 'metric_minutes';
  return stepMs < HOUR_MS ? 'metric_quarters' : 'metric_hours';
};

/**
 * The finest step that gives at most `points` points between two times, and that is still kept for the first of them.
 * `undefined` if even weeks are more.
 * @param kept  what the organization keeps
 */
export function stepFor(
  { from, to, points }: { from: number; to: number; points: number },
  now: number,
  kept: MetricRetention,
): number | undefined {
  const daysOf = (table: ReturnType<typeof tableFor>) =>
    RESOLUTIONS.reduce((days, one) => (one.table === table ? kept[one.choice] : days), 0);
  return STEPS.find((stepMs) => {
    const count = Math.ceil(to / stepMs) - Math.floor(from / stepMs);
    const isKept = from >= now - daysOf(tableFor(stepMs)) * DAY_MS;
    return count <= points && (isKept || stepMs >= HOUR_MS);
  });
}
