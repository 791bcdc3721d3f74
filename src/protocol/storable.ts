/**
 * Postgres cannot store NUL in text or jsonb, and UTF-8 has no form for half of a surrogate pair. One such character in
 * one record makes the whole batch fail that the record is written with. What comes from people is refused because of
 * it (`text`), so that they can mend it; what a machine reports is replaced (`reportedText`), because nobody is there to
 * mend it and the rest of the report is worth keeping.
 */

export const isStorableText = (text: string): boolean => text.isWellFormed() && !text.includes('\0');

export const UNSTORABLE_RULE = 'must not contain NUL characters or halves of surrogate pairs';

/** The text with U+FFFD in the place of each character that cannot be stored. Its length stays the same. */
export const storableText = (text: string): string =>
  isStorableText(text) ? text : text.replaceAll(/[\p{Surrogate}\0]/gu, '\uFFFD');

const DEPTH_MAX = 100;

/** The same for all texts and keys in JSON. What is nested deeper than a reader can follow is left out. */
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
