import { formatBytes, formatPercent } from '../../ui/index.ts';
import type { ChartUnit } from './metric-charts.ts';

/** How a figure of each unit is written. */
export const FIGURE_FORMATS: Readonly<Record<ChartUnit, (value: number) => string>> = {
  percent: formatPercent,
  bytesPerSecond: (value) => `${formatBytes(value)}/s`,
  number: (value) => value.toLocaleString(undefined, { maximumFractionDigits: 2 }),
};
