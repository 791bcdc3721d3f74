import { z } from 'zod';
import { storableJson, storableText } from '../../../protocol/index.ts';
import type { Json } from '../chain/canonical-json.ts';
import { ZERO_UUID } from '../chain/chain.ts';

/**
 * Converts values to a form that Postgres stores and returns unchanged, so that the hash of the stored entry equals the
 * hash of the entry that was recorded. Nothing here may throw: a failed entry would roll back the action it describes.
 */

export const truncateText = (text: string, length: number): string => storableText(text.slice(0, length));

/** The value as JSON, with storable texts and keys and a limited depth. */
export function sanitizeJson(value: unknown): Json {
  try {
    // JSON drops undefined and functions, writes dates as text and turns NaN and infinity into null.
    const text: string | undefined = JSON.stringify(value, (_key, one: unknown) =>
      typeof one === 'bigint' ? String(one) : one,
    );
    return text === undefined ? null : (storableJson(JSON.parse(text)) as Json);
  } catch (error) {
    return { unreadable: storableText(String(error)) };
  }
}

const Uuid = z.guid();

/** A UUID in the form that Postgres returns; for any other id the zero UUID, with the original text as `raw`. */
export function asUuid(id: string): { id: string; raw?: string } {
  return Uuid.safeParse(id).success ? { id: id.toLowerCase() } : { id: ZERO_UUID, raw: id };
}
