import { z } from 'zod';
import { clock, DAY_MS } from '../../clock.ts';
import { inNfc } from '../../nfc.ts';

/** Building blocks of request and response schemas. */

/** A time of the database in an answer: ISO 8601, UTC, milliseconds. */
export const Timestamp = z.preprocess(
  (value) => (value instanceof Date ? value.toISOString() : value),
  z.iso.datetime(),
);

/** An id in a request, in lower case, as the database returns ids, so it can be compared with those. */
export const Id = z.uuid().toLowerCase();

export const IdParams = z.object({ id: Id });

/** Free-form JSON object of a record, as answers carry it. */
export const JsonColumn = z.record(z.string(), z.unknown());

/** Characters that Postgres cannot store, or would store as others. */
const isUnstorable = (value: string) => value.includes('\0') || /\p{Surrogate}/u.test(value);
const UNSTORABLE_RULE = 'must not contain NUL characters or halves of surrogate pairs';

/** Text that is stored exactly as it was sent, and is not blank. */
export const text = (max: number, min = 1) => notBlank(z.string(), max, min);

/** The same in NFC: names that people give, and what is searched in names. */
export const nfcText = (max: number, min = 1) => notBlank(z.string().overwrite(inNfc), max, min);

const notBlank = (schema: z.ZodString, max: number, min: number) =>
  schema
    .min(min)
    .max(max)
    .refine((value) => min === 0 || value.trim() !== '', 'must not be blank')
    .refine((value) => !isUnstorable(value), UNSTORABLE_RULE);

/** Words of a query string, separated by commas, in any case. */
export const listOf = <T extends string>(words: z.ZodType<T, T> & { options: readonly T[] }) =>
  z
    .string()
    .transform((list) => list.split(',').map((word) => word.trim().toLowerCase()))
    .pipe(z.array(words).min(1).max(words.options.length))
    .optional()
    .meta({ type: 'string', description: `Any of ${words.options.join(', ')}, separated by commas.` });

/** A number in a query string, within bounds that are stated and not clamped. An empty value counts as absent. */
export const wholeNumber = (byDefault: number, min: number, max: number) =>
  z
    .string()
    .regex(/^\d{0,9}$/, `must be a whole number from ${min} to ${max}`)
    .optional()
    .transform((digits = '') => (digits === '' ? byDefault : Number(digits)))
    .refine((value) => value >= min && value <= max, `must be from ${min} to ${max}`);

/** A time of day in a request. */
export const ClockTime = z
  .string()
  .regex(/^([01]\d|2[0-3]):[0-5]\d$/, 'must be a time from 00:00 to 23:59, such as 08:30');

// The range that both Postgres and four digits of a year can hold.
const FIRST_MS = Date.parse('0001-01-01T00:00:00Z');
const LAST_MS = Date.parse('9999-12-31T23:59:59.999Z');

/**
 * A time in a request, in ISO 8601: with its zone, or a day of UTC. A day stands for its midnight; at the end of a range
 * for the last millisecond of it.
 */
export const instantOrDay = (edge: 'begin' | 'end' = 'begin') =>
  z
    .union([z.iso.datetime({ offset: true }), z.iso.date()], {
      error: 'must be a time or a day in ISO 8601, such as 2026-11-21T08:00:00Z or 2026-11-21',
    })
    .transform((value) => {
      const at = Date.parse(value);
      return new Date(edge === 'end' && !value.includes('T') ? at + DAY_MS - 1 : at);
    })
    .refine((at) => at.getTime() >= FIRST_MS && at.getTime() <= LAST_MS, 'must lie in the years 1 to 9999');

/** A time in a request that has not come yet. */
export const futureInstant = () =>
  instantOrDay().refine((at) => at.getTime() > clock.now(), 'must lie in the future');

/** Refuses a span of time that ends before it begins, and names its beginning. */
export const noneBefore =
  <K extends string>(from: K, to: K) =>
  (query: Partial<Record<K, string | Date | undefined>>, context: z.core.$RefinementCtx): void => {
    const [begin, end] = [query[from], query[to]];
    if (begin === undefined || end === undefined || new Date(begin) <= new Date(end)) return;
    context.addIssue({ code: 'custom', path: [from], message: `must not be after ${to}` });
  };

const MAX_JSON_DEPTH = 32;
const MAX_JSON_LENGTH = 65_536;

/** Refuses JSON that is deeper or longer than a person would write, or has a text that cannot be stored. */
export function isStorableJson(value: unknown, context: z.core.$RefinementCtx): void {
  const waiting: { value: unknown; path: string[] }[] = [{ value, path: [] }];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { value: inner, path } = next;
    const issue = jsonFault(inner, path.length);
    if (issue !== undefined) return context.addIssue({ code: 'custom', path, message: issue });
    if (typeof inner !== 'object' || inner === null) continue;
    for (const [key, child] of Object.entries(inner)) {
      if (isUnstorable(key)) return context.addIssue({ code: 'custom', path, message: UNSTORABLE_RULE });
      waiting.push({ value: child, path: [...path, key] });
    }
  }
  if ((JSON.stringify(value) ?? '').length > MAX_JSON_LENGTH) {
    context.addIssue({
      code: 'custom',
      message: `must not have more than ${MAX_JSON_LENGTH} characters as JSON`,
    });
  }
}

/** Free-form JSON object in a request. */
export const JsonInput = z.record(z.string(), z.unknown()).superRefine(isStorableJson);

/** Free-form JSON in a request: a value of any type. */
export const AnyJsonInput = z.unknown().superRefine(isStorableJson);

function jsonFault(value: unknown, depth: number): string | undefined {
  if (depth > MAX_JSON_DEPTH) return `must not be nested deeper than ${MAX_JSON_DEPTH} levels`;
  return typeof value === 'string' && isUnstorable(value) ? UNSTORABLE_RULE : undefined;
}

/** Part of an address. Case is kept; what would have to be escaped in a URL is not taken. */
export const Slug = text(100).regex(
  /^[\w~.-]+$/,
  'must have letters, digits, dashes, dots, tildes or underscores only',
);

/** An IANA time zone by name, such as Europe/Lisbon or UTC; a bare offset such as +01:00 is none. */
export const TimeZone = z
  .string()
  .max(50)
  .refine(isTimeZone, 'must be an IANA time zone, such as Europe/Lisbon or UTC');

function isTimeZone(name: string): boolean {
  if (!/^[A-Za-z]/.test(name)) return false;
  try {
    // Newer releases of Node take offsets for zones; the letter in front rules those out.
    Intl.DateTimeFormat('en', { timeZone: name });
    return true;
  } catch {
    return false;
  }
}
