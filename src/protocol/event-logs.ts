import { z } from 'zod';
import { Instant } from './primitives.ts';

/** Live event logs: what a device says of its logs and their entries (SPEC 2.18). */

export const LogMetadata = z
  .object({
    name: z.string(),
    displayName: z.string(),
    recordCount: z.number().int().nonnegative(),
    maxSize: z.number().int().nonnegative().describe('Bytes the log may grow to; 0 where it has no limit.'),
    retentionDays: z.number().nonnegative().describe('0 where the log is bounded by size only.'),
    lastWriteTime: z.string().describe('ISO 8601; empty where the log was never written.'),
    source: z
      .enum(['journald', 'file', 'windows', 'macos'])
      .optional()
      .describe('Where the device reads it from.'),
    note: z.string().optional().describe('What a reader should know, such as a fallback to text files.'),
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
      .describe('The original record where it is not XML: a JSON object or a text line.'),
  })
  .meta({ id: 'EventLogEntry' });
export type LogEntry = z.infer<typeof LogEntry>;

export const LOG_PAGE_MAX = 500;
const LogName = z.string().min(1).max(255);

/** The conditions a device applies while it reads; all given ones must hold. */
export const LogConditions = z.object({
  level: z.array(LogLevel).min(1).max(5).optional(),
  source: z.string().min(1).max(255).optional().describe('Exact, in any case.'),
  eventId: z.number().int().nonnegative().optional(),
  text: z.string().min(1).max(500).optional().describe('Substring of the message, in any case.'),
  startTime: Instant.optional().describe('Entries at or after.'),
  endTime: Instant.optional().describe('Entries at or before.'),
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
  scanned: z.number().int().nonnegative().describe('Records read to answer.'),
  truncated: z
    .boolean()
    .describe('True where the device stopped before it had looked at everything asked for.'),
  total: z
    .number()
    .int()
    .nonnegative()
    .optional()
    .describe('Matches in the whole log, where the device knows.'),
});
export type LogQuerySummary = z.infer<typeof LogQuerySummary>;
export const LogNameOnly = z.object({ name: LogName });
export const LogRecordKey = z.object({ name: LogName, recordId: z.number().int().nonnegative() });
