/** What the history holds of a device. */

interface MetricKind {
  /** How blocks name it. Never given to another metric. */
  id: number;
  /** Figures are stored as multiples of it. */
  unit: number;
  /** What its labels name, if a device has several of it. */
  of?: 'volume' | 'process';
  /** It grows by one each second, so that only the difference is stored. */
  isClock?: true;
}

const PERCENT = 0.1;
const MEBIBYTE = 2 ** 20;
/** Bytes a second: fine enough to show an idle machine, and a byte less for each point than exact numbers. */
const RATE = 128;

export const METRICS = {
  cpuPercent: { id: 1, unit: PERCENT },
  ramPercent: { id: 2, unit: PERCENT },
  swapPercent: { id: 3, unit: PERCENT },
  load: { id: 4, unit: 0.01 },
  uptimeSeconds: { id: 5, unit: 1, isClock: true },
  networkReceivedPerSecond: { id: 6, unit: RATE },
  networkSentPerSecond: { id: 7, unit: RATE },
  diskReadPerSecond: { id: 8, unit: RATE },
  diskWrittenPerSecond: { id: 9, unit: RATE },
  volumeUsedBytes: { id: 10, unit: MEBIBYTE, of: 'volume' },
  volumeTotalBytes: { id: 11, unit: MEBIBYTE, of: 'volume' },
  processCpuPercent: { id: 12, unit: PERCENT, of: 'process' },
  processRamPercent: { id: 13, unit: PERCENT, of: 'process' },
} as const satisfies Readonly<Record<string, MetricKind>>;

export type MetricName = keyof typeof METRICS;
export const METRIC_NAMES = Object.keys(METRICS) as MetricName[];

export const kindOf = (metric: MetricName): MetricKind => METRICS[metric];

const BY_ID = new Map<number, MetricName>(METRIC_NAMES.map((name) => [METRICS[name].id, name]));
export const metricOfId = (id: number): MetricName | undefined => BY_ID.get(id);

/** The figures of a sample that have no label, under the same names. */
export const PLAIN_METRICS = METRIC_NAMES.filter((name) => kindOf(name).of === undefined) as Exclude<
  MetricName,
  `volume${string}` | `process${string}`
>[];

/** One metric of a device over the slots of a block. The arrays have the same length, and slots ascend. */
export interface Series {
  metric: MetricName;
  /** The volume or process; empty for metrics of which a device has one. */
  label: string;
  slots: number[];
  min: number[];
  avg: number[];
  max: number[];
}

export interface Block {
  stepSeconds: number;
  series: readonly Series[];
}

/** A block as it is read. */
export interface ReadBlock extends Block {
  /** The slots that any series has, wanted or not. */
  slots: number[];
  /** There were series of a later release, which are left out. */
  hasUnknown: boolean;
}
