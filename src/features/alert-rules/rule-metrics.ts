import { asStored, type Series } from '../metrics/index.ts';

/** What rules can watch of the figures that devices report. */

interface RuleMetricKind {
  /** As alerts call it. */
  words: string;
  unit: 'percent' | 'bytes' | 'bytesPerSecond' | 'seconds' | 'number';
  /** The kinds of the alerts of rules that watch for high and for low figures. */
  alertKinds: readonly [high: string, low: string];
  /** Evaluated for each volume of a device. */
  isOfVolumes?: true;
}

export const RULE_METRICS = {
  cpuPercent: { words: 'processor use', unit: 'percent', alertKinds: ['cpu_high', 'cpu_low'] },
  ramPercent: { words: 'memory use', unit: 'percent', alertKinds: ['memory_high', 'memory_low'] },
  swapPercent: { words: 'swap use', unit: 'percent', alertKinds: ['swap_high', 'swap_low'] },
  load: { words: 'load', unit: 'number', alertKinds: ['load_high', 'load_low'] },
  diskPercent: {
    words: 'disk use',
    unit: 'percent',
    alertKinds: ['disk_full', 'disk_use_low'],
    isOfVolumes: true,
  },
  diskFreeBytes: {
    words: 'free disk space',
    unit: 'bytes',
    alertKinds: ['disk_space_high', 'disk_space_low'],
    isOfVolumes: true,
  },
  uptimeSeconds: { words: 'uptime', unit: 'seconds', alertKinds: ['uptime_long', 'uptime_short'] },
  networkReceivedPerSecond: {
    words: 'received network traffic',
    unit: 'bytesPerSecond',
    alertKinds: ['network_receive_high', 'network_receive_low'],
  },
  networkSentPerSecond: {
    words: 'sent network traffic',
    unit: 'bytesPerSecond',
    alertKinds: ['network_send_high', 'network_send_low'],
  },
  diskReadPerSecond: {
    words: 'disk reads',
    unit: 'bytesPerSecond',
    alertKinds: ['disk_read_high', 'disk_read_low'],
  },
  diskWrittenPerSecond: {
    words: 'disk writes',
    unit: 'bytesPerSecond',
    alertKinds: ['disk_write_high', 'disk_write_low'],
  },
} as const satisfies Readonly<Record<string, RuleMetricKind>>;

export type RuleMetricName = keyof typeof RULE_METRICS;
export const RULE_METRIC_NAMES = Object.keys(RULE_METRICS) as [RuleMetricName, ...RuleMetricName[]];

export const ruleMetric = (name: RuleMetricName): RuleMetricKind => RULE_METRICS[name];

interface Thresholds {
  metric: RuleMetricName;
  operator: 'greaterThan' | 'greaterThanOrEquals' | 'lessThan' | 'lessThanOrEquals';
  threshold: number;
  clearThreshold?: number | undefined;
}

export const isAbove = ({ operator }: Pick<Thresholds, 'operator'>): boolean =>
  operator === 'greaterThan' || operator === 'greaterThanOrEquals';

/** What is wrong with the thresholds of a condition. */
export function thresholdFault(
  condition: Thresholds,
): { field: 'threshold' | 'clearThreshold'; message: string } | undefined {
  const { metric, threshold, clearThreshold } = condition;
  if (ruleMetric(metric).unit === 'percent' && threshold > 100) {
    return { field: 'threshold', message: 'must be at most 100, because it is in percent' };
  }
  if (clearThreshold === undefined) return undefined;
  if (isAbove(condition) && clearThreshold > threshold) {
    return { field: 'clearThreshold', message: 'must not be above the threshold' };
  }
  if (!isAbove(condition) && clearThreshold < threshold) {
    return { field: 'clearThreshold', message: 'must not be below the threshold' };
  }
  return undefined;
}

/** Whether a figure is beyond the threshold. */
export function isBeyond({ operator, threshold }: Thresholds, value: number): boolean {
  switch (operator) {
    case 'greaterThan':
      return value > threshold;
    case 'greaterThanOrEquals':
      return value >= threshold;
    case 'lessThan':
      return value < threshold;
    case 'lessThanOrEquals':
      return value <= threshold;
    default:
      return operator satisfies never;
  }
}

/** Whether a condition that was met no longer is. */
export function isCleared(condition: Thresholds, value: number): boolean {
  const { clearThreshold } = condition;
  if (clearThreshold === undefined) return !isBeyond(condition, value);
  return isAbove(condition) ? value < clearThreshold : value > clearThreshold;
}

/** One figure of a device, in the unit of its metric. */
export interface Point {
  /** In ms. */
  at: number;
  value: number;
}

/** The figures of one metric and volume, the oldest first. */
export interface Figures {
  label: string;
  points: readonly Point[];
}

/** A stretch of the metric history. */
export interface TimedSeries {
  beginsAt: number;
  stepSeconds: number;
  series: readonly Series[];
}

/** Metrics of volumes are computed from how much of them is used, and from their size. */
const isOfVolumes = (metric: RuleMetricName): metric is VolumeMetric =>
  metric === 'diskPercent' || metric === 'diskFreeBytes';
type VolumeMetric = 'diskPercent' | 'diskFreeBytes';

const volumeFigure = (metric: VolumeMetric, used: number, size: number): number =>
  metric === 'diskPercent' ? (100 * used) / size : Math.max(0, size - used);

const sizesOf = (series: readonly Series[], { label }: Series): Series | undefined =>
  series.find((one) => one.metric === 'volumeTotalBytes' && one.label === label);

/** The figures that a rule about the metric evaluates: as they are stored, so that those that arrive and those of the history are the same. */
export function figuresOf(metric: RuleMetricName, { beginsAt, stepSeconds, series }: TimedSeries): Figures[] {
  const stepMs = stepSeconds * 1000;
  if (!isOfVolumes(metric)) {
    return series
      .filter((one) => one.metric === metric)
      .map(({ label, slots, avg }) => ({
        label,
        points: slots.map((slot, place) => ({
          at: beginsAt + slot * stepMs,
          value: asStored(metric, avg[place] ?? 0),
        })),
      }));
  }
  // A day of the history may name thousands of volumes.
  const sizes = new Map(
    series.flatMap((one) => (one.metric === 'volumeTotalBytes' ? [[one.label, one] as const] : [])),
  );
  return series.flatMap((used) => {
    if (used.metric !== 'volumeUsedBytes') return [];
    const total = sizes.get(used.label);
    if (total === undefined) return [];
    const points: Point[] = [];
    let place = 0;
    for (const [at, slot] of used.slots.entries()) {
      // Slots ascend.
      while ((total.slots[place] ?? Number.POSITIVE_INFINITY) < slot) place += 1;
      const size = total.slots[place] === slot ? asStored('volumeTotalBytes', total.avg[place] ?? 0) : 0;
      if (size <= 0) continue;
      const taken = asStored('volumeUsedBytes', used.avg[at] ?? 0);
      points.push({ at: beginsAt + slot * stepMs, value: volumeFigure(metric, taken, size) });
    }
    return points.length === 0 ? [] : [{ label: used.label, points }];
  });
}

export type Extreme = 'least' | 'greatest';

/**
 * The least or the greatest of the figures that `figuresOf` returns, without making lists of them, because most devices are
 * within all thresholds. If the size of a volume changes, it may lie beyond all figures. Undefined if there are none.
 */
export function extremeOf(
  metric: RuleMetricName,
  extreme: Extreme,
  stretches: readonly TimedSeries[],
): number | undefined {
  const ofVolumes = isOfVolumes(metric) ? metric : undefined;
  let found: number | undefined;
  for (const { series } of stretches) {
    for (const one of series) {
      let value: number | undefined;
      if (ofVolumes !== undefined) value = volumeExtreme(ofVolumes, extreme, one, series);
      else if (one.metric === metric) value = storedExtreme(extreme, one);
      if (value !== undefined && (found === undefined || isFurther(extreme, value, found))) found = value;
    }
  }
  return found;
}

const isFurther = (extreme: Extreme, one: number, other: number): boolean =>
  extreme === 'least' ? one < other : one > other;

function volumeExtreme(
  metric: VolumeMetric,
  extreme: Extreme,
  used: Series,
  series: readonly Series[],
): number | undefined {
  if (used.metric !== 'volumeUsedBytes') return undefined;
  const total = sizesOf(series, used);
  if (total === undefined) return undefined;
  // The fuller a volume is, the higher is its percentage, and the less is free.
  const isFullest = (metric === 'diskPercent') === (extreme === 'greatest');
  const taken = storedExtreme(isFullest ? 'greatest' : 'least', used) ?? 0;
  const size = storedExtreme(isFullest ? 'least' : 'greatest', total) ?? 0;
  // There may be other sizes. Nothing divides by this one.
  if (metric === 'diskPercent' && size <= 0) return Number.POSITIVE_INFINITY;
  return volumeFigure(metric, taken, size);
}

/** Storing keeps the order of figures. */
function storedExtreme(extreme: Extreme, { metric, avg }: Series): number | undefined {
  let found = avg[0];
  if (found === undefined) return undefined;
  for (const value of avg) if (isFurther(extreme, value, found)) found = value;
  return asStored(metric, found);
}

/** The kinds of all alerts that rules about metrics raise. */
export const METRIC_ALERT_KINDS: readonly string[] = Object.values(RULE_METRICS).flatMap(
  ({ alertKinds }) => alertKinds,
);
