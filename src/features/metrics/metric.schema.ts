import { z } from 'zod';
import { PresenceReason } from '../../protocol/index.ts';
import { Id, instantOrDay, Timestamp, wholeNumber } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';
import { AVERAGED_METRICS } from '../conditions/index.ts';
import { METRIC_NAMES, type MetricName, PLAIN_METRICS } from './metric.ts';

export const POINTS_MAX = 1000;

export const MetricQuery = z.object({
  from: instantOrDay().optional().describe('Default: a day before `to`.'),
  to: instantOrDay('end').optional().describe('Default: now.'),
  metrics: z
    .string()
    .transform((list) => list.split(',').map((word) => word.trim()))
    .pipe(z.array(z.enum(METRIC_NAMES)).min(1).max(METRIC_NAMES.length))
    .optional()
    .meta({
      type: 'string',
      description: `Any of ${METRIC_NAMES.join(', ')}, separated by commas. Default: all.`,
    }),
  points: wholeNumber(300, 2, POINTS_MAX).meta({
    type: 'string',
    description: `The most points of a series: the finest resolution with no more of them is chosen. Default 300, at most ${POINTS_MAX}.`,
  }),
});
export type MetricQuery = z.infer<typeof MetricQuery>;

const MetricLabels = z.object({
  volume: z.string().optional(),
  process: z.string().optional(),
});

export const MetricSeries = z.object({
  metric: z.enum(METRIC_NAMES),
  labels: MetricLabels.optional().describe('The volume or the process that the series is about.'),
  points: z
    .array(z.array(z.number()).length(4))
    .describe(
      'The beginning of a step in milliseconds since 1970, and minimum, average and maximum in it. A step without a sample is left out.',
    ),
});
export type MetricSeries = z.infer<typeof MetricSeries>;

export const MetricGap = z.object({
  from: Timestamp,
  to: Timestamp,
  reason: PresenceReason.nullable().describe(
    'Why the device was not connected; `connected` if it was, and sent nothing. Null if that is not known.',
  ),
});
export type MetricGap = z.infer<typeof MetricGap>;

export const DeviceMetrics = z
  .object({
    step: z.number().int().describe('Seconds between two points.'),
    series: z.array(MetricSeries),
    gaps: z.array(MetricGap).describe('Times without samples, of three minutes and one step or longer.'),
  })
  .meta({ id: 'DeviceMetrics' });
export type DeviceMetrics = z.infer<typeof DeviceMetrics>;

/** What devices can be put in order by. */
export const RANKED_METRICS = ['volumePercent', ...PLAIN_METRICS] as const satisfies readonly (
  | MetricName
  | 'volumePercent'
)[];
export type RankedMetric = (typeof RANKED_METRICS)[number];

export const MetricsNowQuery = z.object({
  orgId: Id.optional().describe('Only devices of this organization.'),
  filterId: Id.optional().describe('Only devices that the saved filter matches.'),
  metric: z.enum(RANKED_METRICS).default('volumePercent').describe('By default, how full each volume is.'),
  order: z.enum(['asc', 'desc']).default('desc'),
  limit: PageQuery.shape.limit,
});
export type MetricsNowQuery = z.infer<typeof MetricsNowQuery>;

export const ScrapeQuery = MetricsNowQuery.pick({ orgId: true, filterId: true });
export type ScrapeQuery = z.infer<typeof ScrapeQuery>;

export const MetricNow = z.object({
  deviceId: z.uuid(),
  orgId: z.uuid(),
  hostname: z.string(),
  displayName: z.string().nullable(),
  at: Timestamp,
  value: z.number(),
  volume: z.string().optional(),
  usedBytes: z.number().optional(),
  totalBytes: z.number().optional(),
  forecast: z
    .object({
      fullInDays: z.number(),
      confidence: z.number().describe('From 0 to 1: the share of times between which the volume has grown.'),
    })
    .nullable()
    .optional()
    .describe(
      'Of a volume: when it is full if it grows as in the last 30 days. Null if it does not grow clearly, or not within a year.',
    ),
});
export type MetricNow = z.infer<typeof MetricNow>;

export const MetricsNow = z
  .object({
    data: z.array(MetricNow).describe('Of devices whose samples have arrived in the last ten minutes.'),
    isComplete: z.boolean().describe('False if there are more devices than are looked at.'),
  })
  .meta({ id: 'MetricsNow' });
export type MetricsNow = z.infer<typeof MetricsNow>;

/** The most devices of one request, whose ids a URL can hold. */
const HOURS_DEVICES_MAX = 100;

export const MetricHoursQuery = z.object({
  deviceIds: z
    .string()
    .transform((list) => list.split(','))
    .pipe(z.array(Id).min(1).max(HOURS_DEVICES_MAX))
    .meta({ type: 'string', description: `Up to ${HOURS_DEVICES_MAX} ids, separated by commas.` }),
  metric: z.enum(AVERAGED_METRICS),
});
export type MetricHoursQuery = z.infer<typeof MetricHoursQuery>;

export const MetricHours = z
  .object({
    data: z.array(
      z.object({
        deviceId: z.uuid(),
        until: Timestamp.describe('The end of the last hour.'),
        averages: z
          .array(z.number().nullable())
          .describe('Of each hour, the last one at the end. Null for an hour without figures.'),
      }),
    ),
  })
  .meta({ id: 'MetricHours' });
export type MetricHours = z.infer<typeof MetricHours>;

/** For how many days the server keeps each resolution. An organization may choose less. */
export const KEPT_DAYS = { minuteDays: 14, quarterDays: 90, hourDays: 730 } as const;

const days = (of: string, max: number) =>
  z.number().int().min(1).max(max).describe(`For how many days ${of} are kept. ${max} unless set otherwise.`);

export const MetricRetention = z.strictObject({
  minuteDays: days('figures of each minute', KEPT_DAYS.minuteDays),
  quarterDays: days('figures of each quarter of an hour', KEPT_DAYS.quarterDays),
  hourDays: days('figures of each hour', KEPT_DAYS.hourDays),
});
export type MetricRetention = z.infer<typeof MetricRetention>;
