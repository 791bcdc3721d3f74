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
