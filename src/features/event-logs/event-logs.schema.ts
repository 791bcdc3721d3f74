import { z } from 'zod';
import { LOG_PAGE_MAX, LogConditions, LogEntry, LogLevel, LogMetadata } from '../../protocol/index.ts';

/** A number in a query string, within bounds that are stated and not clamped. */
const count = (byDefault: number, min: number, max: number) =>
  z
    .string()
    .regex(/^\d{1,9}$/, `must be a whole number from ${min} to ${max}`)
    .default(String(byDefault))
    .transform(Number)
    .refine((value) => value >= min && value <= max, `must be from ${min} to ${max}`);

const LEVELS = LogLevel.options;

/** The conditions of `LogConditions` as a query string can say them. */
export const EntriesQuery = z.object({
  page: count(1, 1, 100_000),
  limit: count(50, 1, LOG_PAGE_MAX),
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
  startTime: LogConditions.shape.startTime,
  endTime: LogConditions.shape.endTime,
});
export type EntriesQuery = z.infer<typeof EntriesQuery>;

export const DeviceParams = z.object({ deviceId: z.uuid() });
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
    tookMs: z.number().int(),
  }),
});
