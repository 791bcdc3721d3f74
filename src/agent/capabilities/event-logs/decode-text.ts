import { isUtf8 } from 'node:buffer';

/** The characters from 0x80 to 0x9F in Windows-1252. Node.js decodes them as control characters, as Latin-1 has them. */
const WESTERN = '€\x81‚ƒ„…†‡ˆ‰Š‹Œ\x8dŽ\x8f\x90‘’“”•–—˜™š›œ\x9džŸ';

/**
 * Decodes text of unknown origin. It is UTF-8, or else in the single-byte encoding of Western Europe that old programs
 * write. Text that has both is UTF-8 that was damaged.
 */
export function decodeText(bytes: Buffer): string {
  const text = bytes.toString('utf8');
  if (!text.includes('\uFFFD') || isUtf8(bytes)) return text;
  // oxlint-disable-next-line no-control-regex -- All of ASCII.
  if (/[^\0-\x7F\uFFFD]/.test(text)) return text;
  return bytes
    .toString('latin1')
    .replace(/[\x80-\x9F]/g, (character) => WESTERN[character.charCodeAt(0) - 0x80] ?? character);
}
