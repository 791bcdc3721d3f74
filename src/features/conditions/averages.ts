import { z } from 'zod';
import { topic } from '../../platform/cluster/cluster-events.ts';

/** The averages over time that conditions can read. The metric history keeps them (src/features/metrics/averages.ts). */

export const AVERAGED_METRICS = ['cpuPercent', 'ramPercent', 'diskPercent', 'swapPercent', 'load'] as const;
export type AveragedMetric = (typeof AVERAGED_METRICS)[number];

/** The last full hour, the last 24 of them, and the last seven days (UTC) that are over. */
export const AVERAGE_WINDOWS = ['1h', '1d', '7d'] as const;
export type AverageWindow = (typeof AVERAGE_WINDOWS)[number];

export type AverageKey = `${AveragedMetric}.${AverageWindow}`;
export const averageKey = (metric: AveragedMetric, window: AverageWindow): AverageKey =>
  `${metric}.${window}`;

/** The averages of a device that are known, in hundredths. */
export type Averages = Readonly<Partial<Record<AverageKey, number>>>;

/** The averages of many devices were computed anew. */
export const AVERAGES_CHANGED = topic('averages_changed', z.object({}));
