import { z } from 'zod';
import { Instant, atMost, ReportedInstant, ReportedJson, reportedText } from './primitives.ts';

/** Live event logs: the logs of a device and their entries (SPEC 2.18). */

export const LogMetadata = z
  .object({
    name: z.string(),
    displayName: z.string(),
    recordCount: z.number().int().nonnegative().describe('How many entries the log has.'),
    maxSize: z
      .number()
      .int()
      .nonnegative()
      .describe('How many bytes the log may grow to; 0 if it has no limit.'),
    retentionDays: z
      .number()
      .nonnegative()
      .describe('For how long entries are kept; 0 if only the size limits the log.'),
    lastWriteTime: z.string().describe('ISO 8601; empty if the log has no entries.'),
    source: z
      .enum(['journald', 'file', 'windows', 'macos'])
      .optional()
      .describe('The source from which the device reads the log.'),
    note: z.string().optional().describe('A remark for readers, such as that a count is estimated.'),
  })
  .meta({ id: 'EventLogMetadata' });
export type LogMetadata = z.infer<typeof LogMetadata>;

export const LogLevel = z.enum(['information', 'warning', 'error', 'critical', 'verbose']);
export type LogLevel = z.infer<typeof LogLevel>;

export const LogEntry = z
  .object({
    recordId: z.number().int().nonnegative(),
    timeCreated: z.string(),
    level: LogLevel,
    source: z.string(),
    eventId: z.number().int(),
    message: z.string(),
    category: z.string(),
    user: z.string().nullable(),
    computer: z.string(),
    rawXml: z.string().optional(),
    raw: z
      .string()
      .optional()
      .describe('The original record if it is not XML: a JSON object or lines of text.'),
  })
  .meta({ id: 'EventLogEntry' });
export type LogEntry = z.infer<typeof LogEntry>;

export const LOG_PAGE_MAX = 500;
const LogName = z.string().min(1).max(255);

/** The conditions that a device applies while it reads. An entry must meet all of them. */
export const LogConditions = z.object({
  level: z.array(LogLevel).min(1).max(5).optional(),
  source: z.string().min(1).max(255).optional().describe('The whole source, in any case.'),
  eventId: z.number().int().nonnegative().optional(),
  text: z.string().min(1).max(500).optional().describe('A part of the message, in any case.'),
  startTime: Instant.optional().describe('Only entries at or after this time.'),
  endTime: Instant.optional().describe('Only entries at or before this time.'),
});
export type LogConditions = z.infer<typeof LogConditions>;

export const LogQuery = LogConditions.extend({
  name: LogName,
  page: z.number().int().min(1).max(100_000),
  limit: z.number().int().min(1).max(LOG_PAGE_MAX),
});
export type LogQuery = z.infer<typeof LogQuery>;

export const LogTail = LogConditions.extend({ name: LogName });
export type LogTail = z.infer<typeof LogTail>;

export const LogQuerySummary = z.object({
  scanned: z
    .number()
    .int()
    .nonnegative()
    .describe(
      'How many records the device has read; estimated for those that it has skipped without parsing.',
    ),
  truncated: z.boolean().describe('True if the device stopped before it had read all relevant entries.'),
  total: z
    .number()
    .int()
    .nonnegative()
    .optional()
    .describe('How many entries of the whole log match, if the device knows.'),
  note: z
    .string()
    .optional()
    .describe('What is missing from the answer and why, such as parts of a log that were skipped.'),
  lookedBackTo: Instant.optional().describe(
    'If the device stopped because its time was up: how far back it has looked. The first page of the same query with this as `endTime` goes on from there.',
  ),
});
export type LogQuerySummary = z.infer<typeof LogQuerySummary>;
export const LogNameOnly = z.object({ name: LogName });
export const LogRecordKey = z.object({ name: LogName, recordId: z.number().int().nonnegative() });

/** Logs that an agent sends over HTTP to be stored: `POST /agents/:id/logs` and `PUT /agents/:id/eventlogs`. */

/** The most diagnostic lines in one request. */
export const LOG_BATCH_MAX = 500;
/** The largest uncompressed batch, so that a small compressed body cannot expand without limit. */
export const LOG_BATCH_MAX_BYTES = 2_000_000;
/** The most characters of a stored message. The message of an event may be longer; the server cuts it. */
export const LOG_MESSAGE_MAX = 32_768;

export const DiagnosticLevel = z.enum(['debug', 'info', 'warn', 'error']);
export type DiagnosticLevel = z.infer<typeof DiagnosticLevel>;

/** A line of the agent's own log. */
export const DiagnosticLine = z.object({
  timestamp: ReportedInstant,
  level: DiagnosticLevel,
  component: reportedText(100),
  message: reportedText(LOG_MESSAGE_MAX, 0),
  fields: ReportedJson.optional(),
  agentVersion: reportedText(50).optional().describe('Defaults to the present version of the device.'),
});
export type DiagnosticLine = z.infer<typeof DiagnosticLine>;

export const DiagnosticBatch = z.object({ logs: atMost(LOG_BATCH_MAX, DiagnosticLine) });
export type DiagnosticBatch = z.infer<typeof DiagnosticBatch>;
export const DiagnosticReceipt = z.object({ received: z.number().int() });

export const EventLevel = z.enum(['info', 'warning', 'error', 'critical']);
export type EventLevel = z.infer<typeof EventLevel>;
export const EventCategory = z.enum(['security', 'hardware', 'application', 'system']);
export type EventCategory = z.infer<typeof EventCategory>;

/** A text of an event, of any length: the server keeps its first `kept` characters. */
const cutText = (kept: number, min = 1) =>
  reportedText(LOG_BATCH_MAX_BYTES, min).describe(`Cut to ${kept} characters.`);

export const EVENT_SOURCE_MAX = 255;
export const EVENT_ID_MAX = 100;

/** An entry of the machine's logs. */
export const DeviceEvent = z.object({
  timestamp: ReportedInstant,
  level: EventLevel,
  category: EventCategory,
  source: cutText(EVENT_SOURCE_MAX),
  eventId: cutText(EVENT_ID_MAX)
    .optional()
    .describe('Identifies the event within its source. A second event with the same id is ignored.'),
  message: cutText(LOG_MESSAGE_MAX, 0),
  details: ReportedJson.optional(),
});
export type DeviceEvent = z.infer<typeof DeviceEvent>;

/** More events than fit into a body. */
const EVENT_BATCH_MAX = 25_000;
const { $schema: _dialect, ...EVENT_AS_JSON } = z.toJSONSchema(DeviceEvent, {
  io: 'input',
  unrepresentable: 'any',
});

/** Each event is parsed separately with `DeviceEvent`, so that an invalid one does not affect the others. */
export const EventBatch = z.object({
  events: atMost(EVENT_BATCH_MAX, z.unknown()).meta({ type: 'array', items: EVENT_AS_JSON }),
});
export type EventBatch = z.infer<typeof EventBatch>;
export const EventReceipt = z.object({
  success: z.literal(true),
  count: z.number().int().describe('How many of the events were new.'),
  refused: z
    .array(z.object({ path: z.string(), message: z.string() }))
    .optional()
    .describe('The faults of the events that were left out: the first hundred.'),
  refusedCount: z.number().int().optional().describe('How many events were left out, if any.'),
});
export type EventReceipt = z.infer<typeof EventReceipt>;
