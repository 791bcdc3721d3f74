import { z } from 'zod';
import { storableJson, storableText } from '../../../protocol/index.ts';
import type { Json } from '../chain/canonical-json.ts';
import { ZERO_UUID } from '../chain/chain.ts';

/**
 * Makes of what a deed noted what Postgres stores and gives back unchanged, so that the hash made of what was stored is
 * the hash of what was meant. Nothing here may fail: an entry that could not be written would undo the deed.
 */

export const truncateText = (text: string, length: number): string => storableText(text.slice(0, length));

/** What JSON makes of the value, with clean texts and keys, and nothing deeper than a reader can follow. */
export function sanitizeJson(value: unknown): Json {
  try {
    // Undefined and functions go, dates become text, numbers that are none become null.
    const text: string | undefined = JSON.stringify(value, (_key, one: unknown) =>
      typeof one === 'bigint' ? String(one) : one,
    );
    return text === undefined ? null : (storableJson(JSON.parse(text)) as Json);
  } catch (error) {
    return { unreadable: storableText(String(error)) };
  }
}

const Uuid = z.guid();

/** The id where it is a UUID, in the form that Postgres gives back; else the zero UUID, and what was said. */
export function asUuid(id: string): { id: string; raw?: string } {
  return Uuid.safeParse(id).success ? { id: id.toLowerCase() } : { id: ZERO_UUID, raw: id };
}
