import { z } from 'zod';
import { DAY_MS } from '../../clock.ts';
import { everyScope } from '../../platform/http/authentication.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import type { RepeatedReads } from '../audit/index.ts';
import {
  DeviceMetrics,
  MetricHours,
  MetricHoursQuery,
  MetricQuery,
  MetricRetention,
  MetricsNow,
  MetricsNowQuery,
  ScrapeQuery,
} from './metric.schema.ts';
import {
  changeMetricRetention,
  readMetricHours,
  readMetricRetention,
  readMetrics,
  readMetricsNow,
} from './metric.service.ts';
import { scrapeMetrics } from './scrape.service.ts';

/** The answer, which drops what only the audit note needs. */
const MetricRetentionAnswer = MetricRetention.strip().meta({ id: 'MetricRetention' });

export const metricRoutes = ({ reads }: { reads: RepeatedReads }): RouteGroup => ({
  name: 'Metric history',
  description:
    'Figures of devices over time. Each minute is kept for 14 days, each quarter of an hour for 90 days and each hour for 2 years.',
  routes: [
    route({
      method: 'get',
      path: '/devices/:id/metrics',
      summary: 'Read the metric history of a device',
      description:
        'In the finest resolution that has no more than `points` points and is still kept at `from`. What an agent could not send while it was not connected is added within 24 hours.',
      access: everyScope('devices:read'),
      params: IdParams,
      query: MetricQuery,
      response: DeviceMetrics,
      handler: ({ ctx, params, query }) => readMetrics(ctx, params.id, query),
    }),
    route({
      method: 'get',
      path: '/metrics/now',
      summary: 'List devices by their newest figures',
      description:
        'Such as the fullest volumes of all devices, each with a forecast of when it is full. A filter also requires `filters:read`.',
      access: everyScope('devices:read'),
      cost: 'expensive',
      query: MetricsNowQuery,
      response: MetricsNow,
      handler: ({ ctx, query }) => readMetricsNow(ctx, query),
    }),
    route({
      method: 'get',
      path: '/metrics/openmetrics',
      summary: 'Read the newest figures of devices as OpenMetrics',
      description:
        'For Prometheus and what reads its format: scrape it once a minute with an API key as bearer token. At most 10,000 devices; more are read by organization or by filter. A device that has not reported for ten minutes has no figures, and `muster_device_connected` says whether it is connected. A filter also requires `filters:read`.',
      access: everyScope('devices:read'),
      cost: 'expensive',
      query: ScrapeQuery,
      response: z.string(),
      media: ['application/openmetrics-text'],
      errors: ['conflict'],
      handler: ({ ctx, query }) => scrapeMetrics(ctx, query),
      audit: {
        action: 'data.access',
        resource: 'device',
        // Programs read it each minute, all day.
        note: (_answer, { ctx, query }) =>
          reads.once(ctx, ['openmetrics', query], { details: { what: 'openmetrics', ...query } }, DAY_MS),
      },
    }),
    route({
      method: 'get',
      path: '/metrics/hours',
      summary: 'Read the averages of the last 24 hours of many devices',
      description:
        'For small charts in lists. The hours are full ones (UTC), computed a few minutes after each; `diskPercent` is that of the fullest volume. Devices that the caller does not see, and those without figures, are left out.',
      access: everyScope('devices:read'),
      query: MetricHoursQuery,
      response: MetricHours,
      handler: ({ ctx, query }) => readMetricHours(ctx, query),
    }),
    route({
      method: 'get',
      path: '/orgs/organizations/:id/metric-retention',
      summary: 'Read for how long the metric history is kept',
      access: everyScope('devices:read'),
      params: IdParams,
      response: MetricRetentionAnswer,
      handler: ({ ctx, params }) => readMetricRetention(ctx, params.id),
    }),
    route({
      method: 'put',
      path: '/orgs/organizations/:id/metric-retention',
      summary: 'Change for how long the metric history is kept',
      access: { scopes: ['partner', 'system'], permission: 'organizations:write' },
      params: IdParams,
      body: MetricRetention,
      response: MetricRetentionAnswer,
      handler: ({ ctx, params, body }) => changeMetricRetention(ctx, params.id, body),
      audit: {
        action: 'organization.metric_retention.update',
        resource: 'organization',
        note: ({ name }, { params }) => ({ orgId: params.id, resourceId: params.id, resourceName: name }),
      },
    }),
  ],
});
