import type { TextEncoding } from './text-encoding.ts';

/** Finds out from the bytes of a block whether a text may be in it, which takes a tenth of the time of decoding lines. */

/** Characters that are the same bytes in every encoding, and that no program escapes in JSON. */
const PLAIN_RUN = /[\w .:;,@#$%()*+!?=~^|`{}[\]-]+/g;
const RUN_MIN = 2;

/**
 * Returns a function that is true for each block with a line whose message may contain the text; `undefined` where the
 * bytes of a text cannot be known. It never misses a block: escapes in JSON, colours within a word, and the two
 * characters whose lower case is an ASCII letter count as hits.
 */
export function blockSearch(
  text: string | undefined,
  encoding: TextEncoding,
): ((block: Buffer) => boolean) | undefined {
  if (text === undefined || encoding !== 'bytes') return undefined;
  const [run = ''] = (text.match(PLAIN_RUN) ?? []).toSorted((a, b) => b.length - a.length);
  if (run.length < RUN_MIN) return undefined;
  const wanted = run.toLowerCase();
  const others = ['\x1b', '#033[', String.raw`\u`];
  // As the single bytes of their UTF-8.
  if (wanted.includes('k')) others.push('\u00e2\u0084\u00aa');
  if (wanted.includes('i')) others.push('\u00e4\u00b0');
  return (block) => {
    const lower = block.toString('latin1').toLowerCase();
    return lower.includes(wanted) || others.some((other) => lower.includes(other));
  };
}
