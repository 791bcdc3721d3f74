import { z } from 'zod';
import { inNfc } from '../nfc.ts';
import { isStorableText, storableObject, storableText, UNSTORABLE_RULE } from './storable.ts';

/** A time in ISO 8601 with an offset, or a day that stands for its midnight in UTC; as UTC with milliseconds. */
export const Instant = z
  .union([z.iso.datetime({ offset: true }), z.iso.date()], {
    error: 'must be a time with an offset, or a day, in ISO 8601, such as 2026-01-31T08:00:00Z or 2026-01-31',
  })
  .transform((text) => new Date(text).toISOString());

const EARLY_MS = 24 * 3_600_000;

/**
 * A time by the clock of a machine. A clock may be slow, but a time far in the future is refused, because its record
 * would stay the newest one.
 */
export const ReportedInstant = Instant.refine((at) => {
  const ms = Date.parse(at);
  return ms >= 0 && ms <= Date.now() + EARLY_MS;
}, 'must be between 1970 and a day from now');

/** A list that is refused for its length before its entries are parsed. */
export const atMost = <S extends z.ZodType>(max: number, entry: S) =>
  z.preprocess((value, context) => {
    if (!Array.isArray(value) || value.length <= max) return value;
    context.addIssue({ code: 'custom', message: `must have at most ${max} entries` });
    return z.NEVER;
  }, z.array(entry).max(max));

/** Text that the database can store exactly as it was sent. */
export const text = (max: number, min = 1) =>
  z.string().min(min).max(max).refine(isStorableText, UNSTORABLE_RULE);

/**
 * Text that a machine reports. Characters that cannot be stored are replaced, and a text that is too long is cut and ends
 * with an ellipsis: what a machine says of itself is never refused for its length.
 */
export const reportedText = (max: number, min = 1) =>
  z
    .string()
    .min(min)
    .overwrite((value) => shortened(storableText(value), max))
    // Behind the cut, so that it refuses nothing and says how long the text can be.
    .max(max);

/** The same in NFC, for names that people search. */
export const reportedName = (max: number, min = 1) =>
  z
    .string()
    .min(min)
    .overwrite((value) => shortened(storableText(inNfc(value.slice(0, 4 * max))), max))
    .max(max);

/** No half of a surrogate pair stays at the end. */
export const shortened = (value: string, max: number): string =>
  value.length <= max ? value : `${value.slice(0, max - 1).replace(/[\uD800-\uDBFF]$/, '')}…`;

/** Text of one line that a machine reports. Characters that move the cursor or the direction of writing are replaced. */
export const reportedLine = (max: number) =>
  reportedText(max, 0).overwrite((value) => value.replaceAll(NOT_IN_A_LINE, '\uFFFD'));

/**
 * The same for a short value that is compared or shown in lists, such as a name: characters that cannot be seen are
 * removed, and what is too long is cut with a mark instead of being refused.
 */
export const cutLine = (max: number) =>
  z.string().overwrite((value) => {
    // A multiple of the limit leaves room for what is removed.
    const line = storableText(inNfc(value.slice(0, 4 * max)))
      .replaceAll(UNSEEN, '')
      .replaceAll(/\s+/g, ' ')
      .trim();
    return line.length <= max ? line : `${storableText(line.slice(0, max - 1)).replace(/\uFFFD$/, '')}…`;
  });
/** Marks of direction and of no width, and control characters except those that are white space. */
const UNSEEN = /[\p{Cf}]|(?!\s)\p{Cc}/gu;
/** Control characters, ends of lines and paragraphs, and the marks that reverse the order in which text is shown. */
const NOT_IN_A_LINE = /[\p{Cc}\u2028\u2029\u202A-\u202E\u2066-\u2069]/gu;

const JSON_DEPTH_MAX = 32;

/** A free-form JSON object that a machine reports. Characters that cannot be stored are replaced in its texts and keys. */
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
