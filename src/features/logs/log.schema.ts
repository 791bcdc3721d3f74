import { z } from 'zod';
import { Id, instantOrDay, listOf, noneBefore, text, Timestamp } from '../../platform/http/fields.ts';
import { pageQuery, pageOf } from '../../platform/http/pagination.ts';
import {
  LOG_PAGE_MAX,
  LogConditions,
  LogEntry,
  LogLevel,
  LogMetadata,
  LogQuerySummary,
  EventCategory,
  EventLevel,
  DiagnosticLevel,
} from '../../protocol/index.ts';

const LEVELS = LogLevel.options;

/** As it goes to the device. */
const asText = (time: ReturnType<typeof instantOrDay>) => time.transform((at) => at.toISOString()).optional();

/** The times of `LogConditions` as requests say them. */
export const ConditionTimes = {
  startTime: asText(instantOrDay('begin')).describe('Entries at or after: an instant, or a day (UTC).'),
  endTime: asText(instantOrDay('end')).describe('Entries at or before: an instant, or a day (UTC).'),
};

/** The conditions of `LogConditions` as a query string can say them. */
export const EntriesQuery = pageQuery({ maxLimit: LOG_PAGE_MAX, maxPage: 100_000 }).extend({
  level: z
    .string()
    .transform((text) => text.split(',').map((word) => word.trim().toLowerCase()))
    .pipe(z.array(z.enum(LEVELS, `must be of ${LEVELS.join(', ')}, separated by commas`)).min(1))
    .optional()
    .meta({ description: `Any of ${LEVELS.join(', ')}, separated by commas.` }),
  source: LogConditions.shape.source,
  eventId: z
    .string()
    .regex(/^\d{1,9}$/, 'must be a whole number')
    .transform(Number)
    .optional(),
  text: LogConditions.shape.text,
  ...ConditionTimes,
});
export type EntriesQuery = z.infer<typeof EntriesQuery>;

export const DeviceParams = z.object({ deviceId: Id });
/** Compared with what the device lists, never used as a path. */
export const LogParams = DeviceParams.extend({ name: z.string().min(1).max(255) });
export const RecordParams = LogParams.extend({
  recordId: z
    .string()
    .regex(/^\d{1,16}$/)
    .transform(Number)
    .refine(Number.isSafeInteger),
});

export const LogList = z.object({ data: z.array(LogMetadata) });
export const LogOne = z.object({ data: LogMetadata });
export const EntryOne = z.object({ data: LogEntry });
export const EntryPage = z.object({
  data: z.array(LogEntry),
  pagination: z.object({
    page: z.number().int(),
    limit: z.number().int(),
    total: z.number().int().optional(),
  }),
  meta: z.object({
    scanned: z.number().int().describe('Records the device read to answer.'),
    truncated: z.boolean().describe('The device stopped before it had read everything asked for.'),
    note: z
      .string()
      .optional()
      .describe('What is missing from the answer and why, in the words of the device.'),
    lookedBackTo: LogQuerySummary.shape.lookedBackTo,
    tookMs: z.number().int(),
  }),
});

export const StoredEvent = z
  .object({
    id: z.uuid(),
    deviceId: z.uuid(),
    orgId: z.uuid(),
    timestamp: Timestamp.describe('When it happened, by the device’s own clock.'),
    level: EventLevel,
    category: EventCategory,
    source: z.string(),
    eventId: z.string().nullable(),
    message: z.string(),
    details: z.record(z.string(), z.unknown()).nullable(),
    createdAt: Timestamp,
  })
  .meta({ id: 'StoredEvent' });
export type StoredEvent = z.infer<typeof StoredEvent>;

export const StoredEventQuery = pageQuery({ maxLimit: 500 })
  .extend({
    category: listOf(EventCategory),
    level: listOf(EventLevel),
    source: text(255).optional().describe('Exact.'),
    startDate: instantOrDay('begin').optional().describe('Events at or after: an instant, or a day (UTC).'),
    endDate: instantOrDay('end').optional().describe('Events at or before: an instant, or a day (UTC).'),
  })
  .superRefine(noneBefore('startDate', 'endDate'));
export type StoredEventQuery = z.infer<typeof StoredEventQuery>;

export const StoredEventPage = pageOf(StoredEvent);

export const DiagnosticLog = z
  .object({
    id: z.uuid(),
    deviceId: z.uuid(),
    orgId: z.uuid(),
    timestamp: Timestamp.describe('When the agent wrote it, by its own clock.'),
    level: DiagnosticLevel,
    component: z.string(),
    message: z.string(),
    fields: z.record(z.string(), z.unknown()).nullable(),
    agentVersion: z.string().nullable(),
    createdAt: Timestamp,
  })
  .meta({ id: 'DiagnosticLog' });
export type DiagnosticLog = z.infer<typeof DiagnosticLog>;

export const DiagnosticLogQuery = pageQuery({ maxLimit: 1000 })
  .extend({
    level: listOf(DiagnosticLevel),
    component: text(100).optional().describe('Exact.'),
    since: instantOrDay('begin').optional().describe('Lines at or after: an instant, or a day (UTC).'),
    until: instantOrDay('end').optional().describe('Lines at or before: an instant, or a day (UTC).'),
    search: text(500).optional().describe('Part of the message, in any case.'),
  })
  .superRefine(noneBefore('since', 'until'));
export type DiagnosticLogQuery = z.infer<typeof DiagnosticLogQuery>;

export const DiagnosticLogPage = z.object({
  logs: z.array(DiagnosticLog),
  total: z.number().int(),
  limit: z.number().int(),
  offset: z.number().int(),
});
export type DiagnosticLogPage = z.infer<typeof DiagnosticLogPage>;
