import { z } from 'zod';
import { isStorableText, storableObject, storableText, UNSTORABLE_RULE } from './storable.ts';

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

/** Text that a database keeps exactly as it was sent. */
export const text = (max: number, min = 1) =>
  z.string().min(min).max(max).refine(isStorableText, UNSTORABLE_RULE);

/** Text that a machine reports: what cannot be stored of it is replaced. */
export const reportedText = (max: number, min = 1) => z.string().min(min).max(max).overwrite(storableText);

const JSON_DEPTH_MAX = 32;

/** Free-form JSON object that a machine reports: what cannot be stored of its texts and keys is replaced. */
export const ReportedJson = z
  .record(z.string(), z.unknown())
  .refine(
    (value) => !isDeeperThan(JSON_DEPTH_MAX, value),
    `must not be nested deeper than ${JSON_DEPTH_MAX} levels`,
  )
  .overwrite((value) => storableObject(value));

function isDeeperThan(levels: number, value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((item) => isDeeperThan(levels - 1, item));
}

export const OsType = z.enum(['windows', 'macos', 'linux']);
export type OsType = z.infer<typeof OsType>;

export const Architecture = z.enum(['x64', 'x86', 'arm64']);
export type Architecture = z.infer<typeof Architecture>;
