import { z } from 'zod';
import type { Json } from './canonical-json.ts';
import { ZERO_UUID } from './chain.ts';

/**
 * Makes of what a deed noted what Postgres stores and gives back unchanged, so that the hash made of what was stored is
 * the hash of what was meant. Nothing here may fail: an entry that could not be written would undo the deed.
 */

const TOO_DEEP = 100;

/** NUL, which Postgres refuses, and halves of a character, which UTF-8 cannot say, become U+FFFD. */
export const cleanText = (text: string): string => text.replaceAll(/[\p{Surrogate}\0]/gu, '\uFFFD');

export const cutText = (text: string, length: number): string => cleanText(text.slice(0, length));

/** What JSON makes of the value, with clean texts and keys, and nothing deeper than a reader can follow. */
export function cleanJson(value: unknown): Json {
  try {
    // Undefined and functions go, dates become text, numbers that are none become null.
    const text: string | undefined = JSON.stringify(value, (_key, one: unknown) =>
      typeof one === 'bigint' ? String(one) : one,
    );
    return text === undefined ? null : cleaned(JSON.parse(text) as Json, 0);
  } catch (error) {
    return { unreadable: cleanText(String(error)) };
  }
}

function cleaned(value: Json, depth: number): Json {
  if (typeof value === 'string') return cleanText(value);
  if (typeof value !== 'object' || value === null) return value;
  if (depth === TOO_DEEP) return '(deeper than is kept)';
  if (Array.isArray(value)) return value.map((one: Json) => cleaned(one, depth + 1));
  return Object.fromEntries(
    Object.entries(value).map(([key, one]) => [cleanText(key), cleaned(one, depth + 1)]),
  );
}

const Uuid = z.guid();

/** The id where it is a UUID, in the form that Postgres gives back; else the zero UUID, and what was said. */
export function asUuid(id: string): { id: string; raw?: string } {
  return Uuid.safeParse(id).success ? { id: id.toLowerCase() } : { id: ZERO_UUID, raw: id };
}
