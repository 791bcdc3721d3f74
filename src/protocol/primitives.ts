import { z } from 'zod';

/** An instant, ISO 8601 with an offset, normalised to UTC with milliseconds. */
export const Instant = z.iso
  .datetime({
    offset: true,
    error: 'must be an ISO 8601 date and time with an offset, such as 2026-01-31T08:00:00Z',
  })
  .transform((text) => new Date(text).toISOString())
  .meta({ format: 'date-time' });

const EARLY_MS = 24 * 3_600_000;

/**
 * A time by a machine's own clock. One that is behind is believed; one that is far ahead would put what it dates on top
 * of all others for good.
 */
export const ReportedInstant = Instant.refine((at) => {
  const ms = Date.parse(at);
  return ms >= 0 && ms <= Date.now() + EARLY_MS;
}, 'must be between 1970 and a day from now');

/** A list of which too many entries are refused before each of them is looked at. */
export const atMost = <S extends z.ZodType>(max: number, entry: S) =>
  z.preprocess((value, context) => {
    if (!Array.isArray(value) || value.length <= max) return value;
    context.addIssue({ code: 'custom', message: `must have at most ${max} entries` });
    return z.NEVER;
  }, z.array(entry).max(max));

const isUnstorable = (value: string) => value.includes('\0') || !value.isWellFormed();
const UNSTORABLE_RULE = 'must not contain NUL characters or halves of surrogate pairs';

/**
 * Text that a database keeps exactly as it was sent: without NUL and without halves of surrogate pairs, which would
 * make a whole batch of records fail.
 */
export const text = (max: number, min = 1) =>
  z
    .string()
    .min(min)
    .max(max)
    .refine((value) => !isUnstorable(value), UNSTORABLE_RULE);

const JSON_DEPTH_MAX = 32;

/** Free-form JSON object, of which the same holds, down to a depth that nobody needs. */
export const JsonObject = z.record(z.string(), z.unknown()).superRefine((value, context) => {
  const fault = jsonFault(value, 0);
  if (fault !== undefined) context.addIssue({ code: 'custom', message: fault });
});

function jsonFault(value: unknown, depth: number): string | undefined {
  if (typeof value === 'string') return isUnstorable(value) ? UNSTORABLE_RULE : undefined;
  if (typeof value !== 'object' || value === null) return undefined;
  if (depth >= JSON_DEPTH_MAX) return `must not be nested deeper than ${JSON_DEPTH_MAX} levels`;
  for (const [key, inner] of Object.entries(value)) {
    if (isUnstorable(key)) return UNSTORABLE_RULE;
    const fault = jsonFault(inner, depth + 1);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

export const OsType = z.enum(['windows', 'macos', 'linux']);
export type OsType = z.infer<typeof OsType>;

export const Architecture = z.enum(['x64', 'x86', 'arm64']);
export type Architecture = z.infer<typeof Architecture>;
