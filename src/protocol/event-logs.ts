import { z } from 'zod';
import { Instant } from './primitives.ts';

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
      .describe('How many bytes the log may grow to; 0 where it has no limit.'),
    retentionDays: z
      .number()
      .nonnegative()
      .describe('For how long entries are kept; 0 where only the size limits the log.'),
    lastWriteTime: z.string().describe('ISO 8601; empty where the log has no entries.'),
    source: z
      .enum(['journald', 'file', 'windows', 'macos'])
      .optional()
      .describe('What the device reads the log from.'),
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
      .describe('The original record where it is not XML: a JSON object or lines of text.'),
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
      'How many records the device has read; estimated for those that it has passed over by their bytes alone.',
    ),
  truncated: z.boolean().describe('True where the device stopped before it had read everything in question.'),
  total: z
    .number()
    .int()
    .nonnegative()
    .optional()
    .describe('How many entries of the whole log match, where the device knows.'),
  note: z
    .string()
    .optional()
    .describe('What is missing from the answer and why, such as the parts of a log that were left out.'),
});
export type LogQuerySummary = z.infer<typeof LogQuerySummary>;
export const LogNameOnly = z.object({ name: LogName });
export const LogRecordKey = z.object({ name: LogName, recordId: z.number().int().nonnegative() });
