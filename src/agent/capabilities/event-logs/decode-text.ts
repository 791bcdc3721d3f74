import { isUtf8 } from 'node:buffer';

const WESTERN = new TextDecoder('windows-1252');

/**
 * Decodes text of unknown origin. It is UTF-8, or else in the single-byte encoding of Western Europe that old programs
 * write. Text that has both is UTF-8 that was damaged.
 */
export function decodeText(bytes: Buffer): string {
  const text = bytes.toString('utf8');
  if (!text.includes('\uFFFD') || isUtf8(bytes)) return text;
  return /[^\0-\x7F\uFFFD]/.test(text) ? text : WESTERN.decode(bytes);
}
