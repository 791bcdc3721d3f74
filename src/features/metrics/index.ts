import { bounded } from '../../platform/db/retention-rule.ts';
import { defineFeature, ONE_PER_DEVICE, ONE_PER_ORGANIZATION } from '../feature.ts';
import { joinHoursRegularly } from './metric-days.job.ts';
import { keepMetricsRegularly } from './metric.job.ts';
import { metricRoutes } from './metric.routes.ts';

export { availabilityReport } from './availability-report.queries.ts';
export { importHistory } from './metric-import.ts';
export type { Turn } from './gaps.ts';
export type { MetricName, Series } from './metric.ts';
export { createMetricStore } from './metric-store.ts';
export { fewestMinuteDays, presenceTimeline } from './metric.queries.ts';
export { minutesOfDevices, turnsOfDevices } from './metric.service.ts';
export { asStored } from './units.ts';

/** Whole partitions are dropped. */
const byPartition = (table: string) =>
  ({ table, ends: 'retention', worker: 'the background job metrics.end' }) as const;

export const feature = defineFeature({
  name: 'metrics',
  routes: (parts: Parameters<typeof metricRoutes>[0]) => [metricRoutes(parts)],
  jobs: (parts: Parameters<typeof keepMetricsRegularly>[0]) => {
    keepMetricsRegularly(parts);
    joinHoursRegularly(parts);
  },
  tables: [
    byPartition('metric_samples'),
    byPartition('metric_minutes'),
    byPartition('metric_days'),
    byPartition('metric_quarters'),
    byPartition('metric_hours'),
    byPartition('presence_changes'),
    bounded('metric_progress', 'it has one row'),
    bounded('metric_retention', ONE_PER_ORGANIZATION),
    bounded('device_metric_averages', ONE_PER_DEVICE),
  ],
});
