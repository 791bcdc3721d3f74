import type { DeviceMetrics } from '../../api/routes.ts';

/** What the charts of a device show, from its metric history. */

type Metric = DeviceMetrics['series'][number]['metric'];
type MetricSeries = DeviceMetrics['series'][number];

export type ChartUnit = 'percent' | 'bytesPerSecond' | 'number';

const UNIT_NAMES: Readonly<Record<ChartUnit, string>> = {
  percent: '%',
  bytesPerSecond: 'bytes per second',
  number: '',
};

/** One line, over the times of its chart; `null` where nothing was measured. */
export interface ChartLine {
  label: string;
  averages: (number | null)[];
  lowest: (number | null)[];
  highest: (number | null)[];
  /** The averages of the time that it is compared with, at the same places. */
  earlier?: (number | null)[];
}

export interface Chart {
  title: string;
  unit: ChartUnit;
  /** In seconds since 1970. */
  times: number[];
  lines: ChartLine[];
}

const CHARTS: readonly { title: string; unit: ChartUnit; metrics: readonly [Metric, string][] }[] = [
  { title: 'Processor', unit: 'percent', metrics: [['cpuPercent', 'Processor']] },
  {
    title: 'Memory',
    unit: 'percent',
    metrics: [
      ['ramPercent', 'Memory'],
      ['swapPercent', 'Swap'],
    ],
  },
  {
    title: 'Network',
    unit: 'bytesPerSecond',
    metrics: [
      ['networkReceivedPerSecond', 'Received'],
      ['networkSentPerSecond', 'Sent'],
    ],
  },
  {
    title: 'Disks',
    unit: 'bytesPerSecond',
    metrics: [
      ['diskReadPerSecond', 'Read'],
      ['diskWrittenPerSecond', 'Written'],
    ],
  },
  { title: 'Load', unit: 'number', metrics: [['load', 'Load']] },
];

/** The charts for which there are figures, each over all steps of the range, so that they stand below each other. */
export function chartsOf(history: DeviceMetrics): Chart[] {
  const times = timesOf(history);
  const charts = CHARTS.map(({ title, unit, metrics }) => ({
    title,
    unit,
    times,
    lines: metrics.flatMap(([metric, label]) =>
      history.series
        .filter((series) => series.metric === metric)
        .map((series) => lineOf(label, series, times)),
    ),
  }));
  return [...charts.slice(0, 2), volumesOf(history, times), ...charts.slice(2)].filter(
    ({ lines }) => lines.length > 0,
  );
}

/** The charts, each line with the same figure of a time that was so many seconds earlier. */
export function compared(charts: readonly Chart[], earlier: DeviceMetrics, seconds: number): Chart[] {
  const before = chartsOf(earlier);
  return charts.map((chart) => {
    const { times: [begin] = [], lines = [] } = before.find(({ title }) => title === chart.title) ?? {};
    if (begin === undefined) return chart;
    // Where it has another resolution, a point lies within one of its steps.
    const places = chart.times.map((time) => Math.floor((time - seconds - begin) / earlier.step));
    const withEarlier = (line: ChartLine) => {
      const same = lines.find(({ label }) => label === line.label);
      return same === undefined
        ? line
        : { ...line, earlier: places.map((place) => same.averages[place] ?? null) };
    };
    return { ...chart, lines: chart.lines.map(withEarlier) };
  });
}

/** How full each volume is. */
function volumesOf({ series }: DeviceMetrics, times: number[]): Chart {
  const totals = new Map(
    series.filter(({ metric }) => metric === 'volumeTotalBytes').map((one) => [one.labels?.volume, one]),
  );
  const lines = series.flatMap((used) => {
    const volume = used.labels?.volume;
    const total = totals.get(volume);
    if (used.metric !== 'volumeUsedBytes' || volume === undefined || total === undefined) return [];
    const sizes = new Map(total.points.map(([at = 0, , average = 0]) => [at, average]));
    const points = used.points.flatMap(([at = 0, ...bytes]) => {
      const size = sizes.get(at) ?? 0;
      return size > 0 ? [[at, ...bytes.map((value) => (100 * value) / size)]] : [];
    });
    return [lineOf(volume, { ...used, points }, times)];
  });
  return { title: 'Volumes', unit: 'percent', times, lines };
}

/** All steps from the first to the last sample: where one is missing, lines are broken. */
function timesOf({ step, series }: DeviceMetrics): number[] {
  let first = Number.POSITIVE_INFINITY;
  let last = Number.NEGATIVE_INFINITY;
  for (const { points } of series) {
    first = Math.min(first, points[0]?.[0] ?? first);
    last = Math.max(last, points.at(-1)?.[0] ?? last);
  }
  const count = last < first ? 0 : Math.round((last - first) / 1000 / step) + 1;
  return Array.from({ length: count }, (_, at) => first / 1000 + at * step);
}

function lineOf(
  label: string,
  { points }: Pick<MetricSeries, 'points'>,
  times: readonly number[],
): ChartLine {
  const byTime = new Map(points.map(([at = 0, ...figures]) => [at / 1000, figures]));
  const column = (place: number) => times.map((time) => byTime.get(time)?.[place] ?? null);
  return { label, lowest: column(0), averages: column(1), highest: column(2) };
}

/** The rows of a file with all that the charts show: a line for each point, in the exact figures. */
export const rowsOf = (charts: readonly Chart[]): (string | number)[][] => [
  ['Time', 'Chart', 'Line', 'Average', 'Lowest', 'Highest', 'Unit'],
  ...charts.flatMap(({ title, unit, times, lines }) =>
    lines.flatMap(({ label, averages, lowest, highest }) =>
      times.flatMap((time, at) => {
        const average = averages[at] ?? null;
        if (average === null) return [];
        const range = [lowest[at] ?? average, highest[at] ?? average];
        return [[new Date(time * 1000).toISOString(), title, label, average, ...range, UNIT_NAMES[unit]]];
      }),
    ),
  ),
];

export interface LineFigures {
  newest: number;
  average: number;
  highest: number;
}

/** What a line says in figures; `undefined` if it has no points. */
export function figuresOf({ averages, highest }: ChartLine): LineFigures | undefined {
  const known = averages.filter((value) => value !== null);
  const newest = known.at(-1);
  if (newest === undefined) return undefined;
  return {
    newest,
    average: known.reduce((sum, value) => sum + value, 0) / known.length,
    highest: highest.reduce<number>((most, value) => Math.max(most, value ?? most), 0),
  };
}
