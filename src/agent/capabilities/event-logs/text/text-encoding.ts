import { decodeText } from '../decode-text.ts';

/** How the text of a file is stored: in single bytes (UTF-8, or an older encoding), or in UTF-16. */
export type TextEncoding = 'bytes' | 'utf16le' | 'utf16be';

/** The bytes of a line break. Positions of lines are multiples of it. */
export const unitOf = (encoding: TextEncoding) => (encoding === 'bytes' ? 1 : 2);

const NEWLINE = 10;

/** Judges by the byte order mark, or by the zeros that every second byte of most languages is. */
export function encodingOf(start: Buffer): TextEncoding {
  if (start[0] === 0xff && start[1] === 0xfe) return 'utf16le';
  if (start[0] === 0xfe && start[1] === 0xff) return 'utf16be';
  const zeros = [0, 0];
  const length = Math.min(start.length & ~1, 512);
  for (let at = 0; at < length; at += 1) if (start[at] === 0) zeros[at % 2] = (zeros[at % 2] ?? 0) + 1;
  const [even = 0, odd = 0] = zeros;
  const many = length / 2 / 2;
  if (length >= 16 && odd > many && even < odd / 8) return 'utf16le';
  if (length >= 16 && even > many && odd < even / 8) return 'utf16be';
  return 'bytes';
}

/**
 * The position of the last break before `end`, or -1. In files of bytes, zeros break lines too: they stand where a
 * program wrote on behind the end of a file that was emptied, or where power failed.
 */
export function lastBreak(block: Buffer, end: number, encoding: TextEncoding, hasZeros: boolean): number {
  if (end <= 0) return -1;
  if (encoding === 'bytes') {
    const newline = block.lastIndexOf(NEWLINE, end - 1);
    return hasZeros ? Math.max(newline, block.lastIndexOf(0, end - 1)) : newline;
  }
  for (let at = end; at > 0; ) {
    at = block.lastIndexOf(NEWLINE, at - 1);
    if (at === -1) return -1;
    if (isWideBreak(block, at, encoding)) return at & ~1;
  }
  return -1;
}

/** The position of the first break from `start` on, or -1. */
export function nextBreak(block: Buffer, start: number, encoding: TextEncoding, hasZeros: boolean): number {
  if (encoding === 'bytes') {
    const newline = block.indexOf(NEWLINE, start);
    const zero = hasZeros ? block.indexOf(0, start) : -1;
    return newline === -1 || zero === -1 ? Math.max(newline, zero) : Math.min(newline, zero);
  }
  for (let at = block.indexOf(NEWLINE, start); at !== -1; at = block.indexOf(NEWLINE, at + 1)) {
    if (isWideBreak(block, at, encoding)) return at & ~1;
  }
  return -1;
}

/** Blocks begin at even positions of the file. */
function isWideBreak(block: Buffer, at: number, encoding: TextEncoding): boolean {
  return encoding === 'utf16le' ? at % 2 === 0 && block[at + 1] === 0 : at % 2 === 1 && block[at - 1] === 0;
}

/** Longer lines are cut to this many bytes. */
export const LINE_BYTES_MAX = 128 * 1024;

export function decodeLine(bytes: Buffer, encoding: TextEncoding): string {
  let end = Math.min(bytes.length, LINE_BYTES_MAX);
  const isCut = end < bytes.length;
  let text: string;
  if (encoding === 'bytes') {
    // The cut must not split a character, so it moves back to the start of one.
    if (isCut) while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
    text = decodeText(bytes.subarray(0, end));
  } else {
    const units = bytes.subarray(0, end & ~1);
    text = (encoding === 'utf16be' ? Buffer.from(units).swap16() : units)
      .toString('utf16le')
      .replace(/^\0+/, '');
  }
  if (text.charCodeAt(0) === BYTE_ORDER_MARK) text = text.slice(1);
  return !isCut && text.endsWith('\r') ? text.slice(0, -1) : text;
}

const BYTE_ORDER_MARK = 0xfe_ff;

const ZEROS = Buffer.alloc(256 * 1024);

/** Whether the block holds nothing but zeros, which is what the hole of a sparse file reads as. */
export function isZero(block: Buffer): boolean {
  return block[0] === 0 && block.equals(ZEROS.subarray(0, block.length));
}

/** The largest block that `isZero` takes. */
export const BLOCK_MAX = ZEROS.length;
