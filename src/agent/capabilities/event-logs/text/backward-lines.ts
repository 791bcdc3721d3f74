import { isUtf8 } from 'node:buffer';
import type { FileHandle } from 'node:fs/promises';

/** How the text of a file is stored: in single bytes (UTF-8, or an older encoding), or in UTF-16. */
export type TextEncoding = 'bytes' | 'utf16le' | 'utf16be';

/** The bytes of a line break. Positions of lines are multiples of it. */
export const unitOf = (encoding: TextEncoding) => (encoding === 'bytes' ? 1 : 2);

const NEWLINE = 10;

/** Detects the encoding by the byte order mark, or by zeros in every second byte, as UTF-16 has in most languages. */
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
 * The position of the last break before `end`, or -1. In files of bytes, zeros break lines too: they appear if a
 * program kept writing behind the end of a truncated file, or after a power failure.
 */
function lastBreak(block: Buffer, end: number, encoding: TextEncoding, hasZeros: boolean): number {
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
function nextBreak(block: Buffer, start: number, encoding: TextEncoding, hasZeros: boolean): number {
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
const LINE_BYTES_MAX = 128 * 1024;

function decodeLine(bytes: Buffer, encoding: TextEncoding): string {
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

/** Whether the block contains only zeros, as the hole of a sparse file does. */
export function isZero(block: Buffer): boolean {
  return block[0] === 0 && block.equals(ZEROS.subarray(0, block.length));
}

/** The largest block that `isZero` accepts. */
const BLOCK_MAX = ZEROS.length;

/** Windows-1252 from 0x80 to 0x9F. Node.js decodes these bytes as control characters, as in Latin-1. */
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

export interface RawLine {
  /** The position of the line in the file, in bytes. */
  offset: number;
  text: string;
}

export interface ByteRange {
  /** Position of the start of a line. */
  from: number;
  /** Position of the end of a line, or of the file. */
  to: number;
}

interface LineRange extends ByteRange {
  encoding: TextEncoding;
}

export interface BackwardOptions {
  /**
   * Whether a block may contain a match. Other blocks are skipped without decoding, unless they are next to one that
   * may. It is also called for the seams of blocks.
   */
  mayMatch?: ((block: Buffer) => boolean) | undefined;
  /** Called for each skipped block. */
  onSkipped?: (bytes: number) => void;
  /** Called with the position up to which the file was read. */
  onRead?: (position: number) => void;
}

/** How many bytes on each side of a block boundary make a seam: more than the longest searched text. */
const SEAM = 4 * 1024;
const EMPTY = Buffer.alloc(0);

interface Block {
  bytes: Buffer;
  position: number;
  mayMatch: boolean;
}

/**
 * Reads the lines of a file from the last to the first, one block at a time. The memory that it needs does not depend
 * on the size of the file or its lines. Lines are decoded as a whole, so characters at the edges of blocks stay
 * intact. `undefined` stands for skipped blocks: the lines before it do not continue those after it.
 */
export async function* linesBackward(
  handle: FileHandle,
  range: LineRange,
  signal: AbortSignal,
  { mayMatch, onSkipped, onRead }: BackwardOptions = {},
): AsyncGenerator<RawLine[] | undefined, void> {
  const splitter = new BackwardSplitter(range.encoding);
  let later: Block | undefined;
  let held: Block | undefined;
  let wasSkipped = false;
  const take = (block: Block, neighbourMatches: boolean): RawLine[] | undefined => {
    onRead?.(block.position);
    if (!block.mayMatch && !neighbourMatches) {
      onSkipped?.(block.bytes.length);
      splitter.forget();
      wasSkipped = true;
      return undefined;
    }
    const lines = splitter.split(block.bytes, block.position);
    return block.position === range.from ? [...lines, ...splitter.end(range.from)] : lines;
  };
  for await (const block of blocksBackward(handle, range, signal)) {
    const next = { ...block, mayMatch: mayMatch === undefined || mayMatch(block.bytes) };
    if (held !== undefined) {
      if (mayMatch !== undefined && !(next.mayMatch && held.mayMatch) && mayMatch(seamOf(next, held))) {
        next.mayMatch = true;
        held.mayMatch = true;
      }
      const lines = take(held, next.mayMatch || (later?.mayMatch ?? false));
      if (lines === undefined) yield undefined;
      else if (lines.length > 0) yield lines;
    }
    later = held;
    held = next;
  }
  // If the file was truncated in the meantime, the lines at the break are unknown.
  if (held === undefined || signal.aborted) return;
  const lines = take(held, later?.mayMatch ?? wasSkipped);
  if (lines !== undefined && lines.length > 0) yield lines;
}

const seamOf = (first: Block, second: Block) =>
  Buffer.concat([first.bytes.subarray(-SEAM), second.bytes.subarray(0, SEAM)]);

async function* blocksBackward(
  handle: FileHandle,
  { from, to, encoding }: LineRange,
  signal: AbortSignal,
): AsyncGenerator<{ bytes: Buffer; position: number }, void> {
  const buffers = [0, 1, 2].map(() => Buffer.allocUnsafe(BLOCK_MAX));
  let position = encoding === 'bytes' ? to : to - ((to - from) % 2);
  for (let turn = 0; position > from && !signal.aborted; turn += 1) {
    const length = Math.min(BLOCK_MAX, position - from);
    position -= length;
    const bytes = await readFully(handle, buffers[turn % 3] ?? EMPTY, length, position);
    if (bytes === undefined) return;
    yield { bytes, position };
  }
}

/** `undefined` if the file was truncated in the meantime. */
async function readFully(handle: FileHandle, buffer: Buffer, length: number, position: number) {
  let filled = 0;
  while (filled < length) {
    const { bytesRead } = await handle.read(buffer, filled, length - filled, position + filled);
    if (bytesRead === 0) return undefined;
    filled += bytesRead;
  }
  return buffer.subarray(0, length);
}

class BackwardSplitter {
  readonly #encoding: TextEncoding;
  /** The start of the line that begins in an earlier block. */
  #rest: Buffer = EMPTY;
  #isAtEnd = true;
  /** Text between zeros and a line break is not an empty line. */
  #isAfterZeros = false;

  constructor(encoding: TextEncoding) {
    this.#encoding = encoding;
  }

  /** The lines that begin in a block, last one first. */
  split(block: Buffer, position: number): RawLine[] {
    const lines: RawLine[] = [];
    if (this.#encoding === 'bytes' && isZero(block)) {
      this.#push(lines, position + block.length, EMPTY, true);
      return lines;
    }
    const unit = unitOf(this.#encoding);
    const hasZeros = this.#encoding === 'bytes' && block.includes(0);
    let end = block.length;
    // The line break at the end of the file does not start another line.
    if (this.#isAtEnd && lastBreak(block, end, this.#encoding, false) === end - unit) end -= unit;
    for (;;) {
      const at = lastBreak(block, end, this.#encoding, hasZeros);
      if (at === -1) break;
      const isZeros = hasZeros && block[at] === 0;
      this.#push(lines, position + at + unit, block.subarray(at + unit, end), isZeros);
      end = at;
      if (isZeros) while (end > 0 && block[end - 1] === 0) end -= 1;
    }
    this.#isAtEnd = false;
    const rest = Buffer.concat([block.subarray(0, end), this.#rest]);
    this.#rest = rest.length > LINE_BYTES_MAX ? Buffer.from(rest.subarray(0, LINE_BYTES_MAX + 4)) : rest;
    return lines;
  }

  /** The line at the start of the file. */
  end(offset: number): RawLine[] {
    const lines: RawLine[] = [];
    this.#push(lines, offset, EMPTY, false);
    return lines;
  }

  /** Drops the incomplete line. */
  forget(): void {
    this.#rest = EMPTY;
    this.#isAtEnd = false;
    this.#isAfterZeros = false;
  }

  /** @param isZeros  whether zeros, and not a line break, precede the line */
  #push(lines: RawLine[], offset: number, start: Buffer, isZeros: boolean): void {
    const bytes = this.#rest.length === 0 ? start : Buffer.concat([start, this.#rest]);
    this.#rest = EMPTY;
    this.#isAtEnd = false;
    const isBetweenZeros = bytes.length === 0 && (isZeros || this.#isAfterZeros);
    this.#isAfterZeros = isZeros;
    if (!isBetweenZeros) lines.push({ offset, text: decodeLine(bytes, this.#encoding) });
  }
}

const BLOCK = 64 * 1024;

/** Reads lines from a position onwards, and continues there when the file has grown. */
export class ForwardLines {
  readonly #encoding: TextEncoding;
  #position: number;
  #rest: Buffer = EMPTY;
  #restOffset: number;
  #isAfterZeros = false;
  readonly #buffer = Buffer.allocUnsafe(BLOCK);

  constructor(offset: number, encoding: TextEncoding = 'bytes') {
    this.#position = offset;
    this.#restOffset = offset;
    this.#encoding = encoding;
  }

  /** The position up to which the file was read. */
  get position(): number {
    return this.#position;
  }

  /** The next complete lines, or `undefined` at the present end of the file. */
  async read(handle: FileHandle): Promise<RawLine[] | undefined> {
    const { bytesRead } = await handle.read(this.#buffer, 0, BLOCK, this.#position);
    const unit = unitOf(this.#encoding);
    // Half a character is read together with the other half.
    const chunk = this.#buffer.subarray(0, bytesRead - (bytesRead % unit));
    if (chunk.length === 0) return undefined;
    const lines: RawLine[] = [];
    const hasZeros = this.#encoding === 'bytes' && chunk.includes(0);
    let start = 0;
    if (hasZeros && isZero(chunk)) {
      this.#push(lines, EMPTY, true);
      start = chunk.length;
      this.#restOffset = this.#position + start;
    }
    while (start < chunk.length) {
      const at = nextBreak(chunk, start, this.#encoding, hasZeros);
      if (at === -1) break;
      const isZeros = hasZeros && chunk[at] === 0;
      this.#push(lines, chunk.subarray(start, at), isZeros);
      start = at + unit;
      if (isZeros) while (chunk[start] === 0 && start < chunk.length) start += 1;
      this.#restOffset = this.#position + start;
    }
    if (this.#rest.length <= LINE_BYTES_MAX) {
      this.#rest = Buffer.concat([this.#rest, chunk.subarray(start)]).subarray(0, LINE_BYTES_MAX + 4);
    }
    this.#position += chunk.length;
    return lines;
  }

  /** The last line, if no line break ends it. */
  end(): RawLine[] {
    const lines: RawLine[] = [];
    if (this.#rest.length > 0) this.#push(lines, EMPTY, false);
    return lines;
  }

  #push(lines: RawLine[], piece: Buffer, isZeros: boolean): void {
    const bytes = this.#rest.length === 0 ? piece : Buffer.concat([this.#rest, piece]);
    this.#rest = EMPTY;
    const isBetweenZeros = bytes.length === 0 && (isZeros || this.#isAfterZeros);
    this.#isAfterZeros = isZeros;
    if (!isBetweenZeros) lines.push({ offset: this.#restOffset, text: decodeLine(bytes, this.#encoding) });
  }
}
