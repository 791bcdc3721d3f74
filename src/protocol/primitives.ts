import { z } from 'zod';
import { inNfc } from '../nfc.ts';

/**
 * Postgres cannot store NUL in text or jsonb, and UTF-8 cannot encode half of a surrogate pair. One such character in a
 * record would make its whole batch fail. Input from users is refused because of it (`text`), so that they can correct
 * it. In the reports of machines it is replaced (`reportedText`), so that the rest of the report is kept.
 */

export const isStorableText = (text: string): boolean => text.isWellFormed() && !text.includes('\0');

export const UNSTORABLE_RULE = 'must not contain NUL characters or halves of surrogate pairs';

/** Replaces each character that cannot be stored with U+FFFD. The length stays the same. */
export const storableText = (text: string): string =>
  isStorableText(text) ? text : text.replaceAll(/[\p{Surrogate}\0]/gu, '\uFFFD');

const DEPTH_MAX = 100;

/** The same for all texts and keys in JSON. Values that are nested too deeply are omitted. */
export function storableJson(value: unknown, depth = 0): unknown {
  if (typeof value === 'string') return storableText(value);
  if (typeof value !== 'object' || value === null) return value;
  if (depth === DEPTH_MAX) return '(deeper than is kept)';
  if (Array.isArray(value)) return value.map((item: unknown) => storableJson(item, depth + 1));
  return storableObject(value, depth);
}

export const storableObject = (value: object, depth = 0): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(value).map(([key, item]) => [storableText(key), storableJson(item, depth + 1)]),
  );

/** A time in ISO 8601 with an offset, or a day, which means its midnight in UTC; converted to UTC with milliseconds. */
export const Instant = z
  .union([z.iso.datetime({ offset: true }), z.iso.date()], {
    error: 'must be a time with an offset, or a day, in ISO 8601, such as 2026-01-31T08:00:00Z or 2026-01-31',
  })
  .transform((text) => new Date(text).toISOString());

const EARLY_MS = 24 * 3_600_000;

/**
 * A time from the clock of a machine. The clock may be slow, but a time far in the future is refused, because its
 * record would stay the newest one.
 */
export const ReportedInstant = Instant.refine((at) => {
  const ms = Date.parse(at);
  return ms >= 0 && ms <= Date.now() + EARLY_MS;
}, 'must be between 1970 and a day from now');

/** A list whose length is checked before its entries are parsed. */
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
    // After the cut, so that it refuses nothing and only documents the length.
    .max(max);

/** The same in NFC, for names that people search. */
export const reportedName = (max: number, min = 1) =>
  z
    .string()
    .min(min)
    .overwrite((value) => shortened(storableText(inNfc(value.slice(0, 4 * max))), max))
    .max(max);

/** Removes half of a surrogate pair at the end. */
export const shortened = (value: string, max: number): string =>
  value.length <= max ? value : `${value.slice(0, max - 1).replace(/[\uD800-\uDBFF]$/, '')}…`;

/** Text of one line that a machine reports. Characters that move the cursor or the direction of writing are replaced. */
export const reportedLine = (max: number) =>
  reportedText(max, 0).overwrite((value) => value.replaceAll(NOT_IN_A_LINE, '\uFFFD'));

/**
 * The same for a short value that is compared or shown in lists, such as a name: invisible characters are removed, and
 * a value that is too long is cut with a mark instead of being refused.
 */
export const cutLine = (max: number) =>
  z.string().overwrite((value) => {
    // A multiple of the limit leaves room for removed characters.
    const line = storableText(inNfc(value.slice(0, 4 * max)))
      .replaceAll(UNSEEN, '')
      .replaceAll(/\s+/g, ' ')
      .trim();
    return line.length <= max ? line : `${storableText(line.slice(0, max - 1)).replace(/\uFFFD$/, '')}…`;
  });
/** Direction marks, zero-width marks, and control characters except white space. */
const UNSEEN = /[\p{Cf}]|(?!\s)\p{Cc}/gu;
/** Control characters, line and paragraph separators, and marks that reverse the direction of text. */
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

export const SourceName = cutLine(50);

/** A source that could not be read, such as one of several package managers. */
export const FailedSource = z.object({
  source: SourceName.describe('Such as `snap`, `interfaces` or `mariadb`.'),
  message: cutLine(300).describe('For people.'),
});
export type FailedSource = z.infer<typeof FailedSource>;
