import type { AlertCondition } from '../../api/routes.ts';

/** The figures of devices that rules watch, in the units in which people think of them. Pure. */

export type MetricCondition = Extract<AlertCondition, { kind: 'metric' }>;
export type MetricName = MetricCondition['metric'];
export type Operator = MetricCondition['operator'];

interface Unit {
  name: string;
  /** How many of the API's units it is. */
  factor: number;
}

const K = 1024;
/** The units of each kind of figure, the smallest first, which is that of the API. */
const UNITS = {
  percent: [{ name: '%', factor: 1 }],
  number: [{ name: '', factor: 1 }],
  bytes: [
    { name: 'B', factor: 1 },
    { name: 'KB', factor: K },
    { name: 'MB', factor: K ** 2 },
    { name: 'GB', factor: K ** 3 },
    { name: 'TB', factor: K ** 4 },
  ],
  rate: [
    { name: 'B/s', factor: 1 },
    { name: 'KB/s', factor: K },
    { name: 'MB/s', factor: K ** 2 },
    { name: 'GB/s', factor: K ** 3 },
  ],
  time: [
    { name: 'seconds', factor: 1 },
    { name: 'minutes', factor: 60 },
    { name: 'hours', factor: 3600 },
    { name: 'days', factor: 86_400 },
  ],
} as const satisfies Record<string, readonly [Unit, ...Unit[]]>;

export interface Metric {
  label: string;
  units: readonly [Unit, ...Unit[]];
  /** The unit that a new rule begins with. */
  unit: string;
  /** What a new rule begins with, in that unit. */
  first: { operator: Operator; threshold: number; clearThreshold?: number; forMinutes: number };
}

const high = (threshold: number, forMinutes = 15) =>
  ({ operator: 'greaterThanOrEquals', threshold, forMinutes }) as const;
const percent = (label: string, first: Metric['first']): Metric => ({
  label,
  units: UNITS.percent,
  unit: '%',
  first,
});
const rate = (label: string, threshold: number): Metric => ({
  label,
  units: UNITS.rate,
  unit: 'MB/s',
  first: high(threshold),
});

export const METRICS: Readonly<Record<MetricName, Metric>> = {
  cpuPercent: percent('Processor use', high(90)),
  ramPercent: percent('Memory use', high(90)),
  swapPercent: percent('Swap use', high(80)),
  load: { label: 'Load', units: UNITS.number, unit: '', first: high(8) },
  diskPercent: percent('Disk use', { ...high(90, 0), clearThreshold: 85 }),
  diskFreeBytes: {
    label: 'Free disk space',
    units: UNITS.bytes,
    unit: 'GB',
    first: { operator: 'lessThan', threshold: 10, forMinutes: 0 },
  },
  uptimeSeconds: { label: 'Uptime', units: UNITS.time, unit: 'days', first: high(30, 0) },
  networkReceivedPerSecond: rate('Received network traffic', 50),
  networkSentPerSecond: rate('Sent network traffic', 50),
  diskReadPerSecond: rate('Disk reads', 100),
  diskWrittenPerSecond: rate('Disk writes', 100),
};

export const METRIC_CHOICES = (Object.keys(METRICS) as MetricName[]).map((value) => ({
  value,
  label: METRICS[value].label,
}));

export const OPERATORS: readonly { value: Operator; label: string }[] = [
  { value: 'greaterThanOrEquals', label: 'at least' },
  { value: 'greaterThan', label: 'above' },
  { value: 'lessThanOrEquals', label: 'at most' },
  { value: 'lessThan', label: 'below' },
];

export const isAbove = (operator: Operator): boolean =>
  operator === 'greaterThan' || operator === 'greaterThanOrEquals';

const DECIMALS = 100;
const rounded = (value: number) => Math.round(value * DECIMALS) / DECIMALS;

/** A figure as the API has it. */
export const stored = (shown: number, factor: number): number =>
  factor === 1 ? shown : Math.round(shown * factor);

export const unitOf = (metric: MetricName, name: string): Unit =>
  METRICS[metric].units.find((unit) => unit.name === name) ?? METRICS[metric].units[0];

/** The largest unit in which a form shows all figures so that it sends the same ones again. */
export function exactUnit(metric: MetricName, threshold: number, others: readonly number[]): Unit {
  const { units, unit } = METRICS[metric];
  const isExact = ({ factor }: Unit) =>
    [threshold, ...others].every((value) => stored(rounded(value / factor), factor) === value);
  if (threshold === 0 && isExact(unitOf(metric, unit))) return unitOf(metric, unit);
  return units.findLast((one) => threshold >= one.factor && isExact(one)) ?? units[0];
}

/** A figure of the API in a unit. In the API's own unit, it stays as it is. */
export const shownIn = (value: number, { factor }: Unit): number =>
  factor === 1 ? value : rounded(value / factor);

/** "90 %", "10 GB", "50 MB/s", "1 day". */
export function figureText(metric: MetricName, value: number): string {
  const { units, unit } = METRICS[metric];
  const one =
    value === 0 ? unitOf(metric, unit) : (units.findLast(({ factor }) => value >= factor) ?? units[0]);
  const shown = rounded(value / one.factor);
  const name =
    shown === 1 && one.name.endsWith('s') && !one.name.includes('/') ? one.name.slice(0, -1) : one.name;
  return `${shown.toLocaleString('en')} ${name}`.trim();
}
