/**
 * Paths of devices as text. On Linux a name is bytes, in any encoding or none, while JSON and the database store
 * characters. So a byte that is not part of valid UTF-8 is written as `\x` and two hexadecimal digits: `caf\xe9.txt`.
 * All other text is written as it is. Only a backslash that would begin such a sequence is escaped as `\x5c`.
 * This is the only module that knows the format (docs/decisions/text-from-others.md). Windows paths are never escaped:
 * their names are characters, and the backslash separates them.
 */

/** The longest text of a path that Linux opens: 4,096 bytes, each of which may take four characters. */
export const PATH_TEXT_MAX = 4 * 4096;

/** Other escapes are ordinary characters of a name: `\x2d`, as systemd writes it, needs no escape. */
const ESCAPE = /\\x(5[cC]|[89a-fA-F][0-9a-fA-F])/g;

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const encoder = new TextEncoder();

/** The text of a path or of a name. */
export function pathText(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at < bytes.length; ) {
    const end = endOfValid(bytes, at);
    if (end > at) text += escapeLiteral(decoder.decode(bytes.subarray(at, end)));
    else text += `\\x${(bytes[at] ?? 0).toString(16)}`;
    at = Math.max(end, at + 1);
  }
  return text;
}

/** The text of a path that consists of characters, such as one that a program has printed. */
export const escapeLiteral = (characters: string): string =>
  characters.includes('\\x')
    ? characters.replace(ESCAPE, (sequence) => `\\x5c${sequence.slice(1)}`)
    : characters;

/** The bytes that a text represents. Every text is valid. */
export function pathBytes(text: string): Uint8Array {
  if (!text.includes('\\')) return encoder.encode(text);
  const parts: Uint8Array[] = [];
  let from = 0;
  for (const match of text.matchAll(ESCAPE)) {
    parts.push(encoder.encode(text.slice(from, match.index)));
    parts.push(Uint8Array.of(Number.parseInt(match[1] ?? '', 16)));
    from = match.index + match[0].length;
  }
  parts.push(encoder.encode(text.slice(from)));
  return joined(parts);
}

/** Normalizes a path that can be written in several ways: `\xc3\xa9` is `é`. */
export const canonicalPath = (text: string): string => pathText(pathBytes(text));

/** The path as printed by a program that replaces each byte that is not UTF-8 with U+FFFD, such as Go's JSON. */
export const printedPath = (text: string): string =>
  text.replace(ESCAPE, (_, byte: string) => (byte.toLowerCase() === '5c' ? '\\' : '\ufffd'));

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

/** The end of the valid UTF-8 sequence that begins at a byte. */
function endOfValid(bytes: Uint8Array, from: number): number {
  let at = from;
  for (let length = lengthAt(bytes, at); length > 0; length = lengthAt(bytes, at)) at += length;
  return at;
}

/** The length of the character at an offset; 0 if there is none (Unicode 16, table 3-7). */
function lengthAt(bytes: Uint8Array, at: number): number {
  const first = bytes[at];
  if (first === undefined) return 0;
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  const least = first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80;
  const most = first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf;
  const second = bytes[at + 1] ?? 0;
  if (second < least || second > most) return 0;
  for (let n = 2; n < length; n++) if (((bytes[at + n] ?? 0) & 0xc0) !== 0x80) return 0;
  return length;
}
