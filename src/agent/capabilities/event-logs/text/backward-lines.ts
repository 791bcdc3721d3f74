import type { FileHandle } from 'node:fs/promises';
import {
  BLOCK_MAX,
  decodeLine,
  isZero,
  lastBreak,
  LINE_BYTES_MAX,
  unitOf,
  type TextEncoding,
} from './text-encoding.ts';

export interface RawLine {
  /** The position of the line in the file, in bytes. */
  offset: number;
  text: string;
}

export interface ByteRange {
  /** Where a line begins. */
  from: number;
  /** Where a line ends, or the file does. */
  to: number;
}

export interface LineRange extends ByteRange {
  encoding: TextEncoding;
}

export interface BackwardOptions {
  /**
   * Whether a block may hold what is looked for. Blocks that do not, and are not next to one that does, are passed over
   * without being decoded. It is also asked for the seams of blocks.
   */
  mayMatch?: ((block: Buffer) => boolean) | undefined;
  /** Called for each block that was passed over. */
  onSkipped?: (bytes: number) => void;
  /** Called with the position up to which the file was read. */
  onRead?: (position: number) => void;
}

/** How many bytes on each side of two blocks make a seam: more than the longest text that is looked for. */
const SEAM = 4 * 1024;
const EMPTY = Buffer.alloc(0);

interface Block {
  bytes: Buffer;
  position: number;
  mayMatch: boolean;
}

/**
 * Reads the lines of a file from the last to the first, one block at a time. The memory that it needs does not depend on
 * the size of the file or its lines. Lines are decoded as a whole, so characters at the edges of blocks stay intact.
 * `undefined` stands for blocks that were passed over: the lines before it do not continue those after it.
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
  // Of a file that has become shorter meanwhile, the lines at the break are not known.
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

/** `undefined` where the file has become shorter meanwhile. */
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
  /** What stands between zeros and a line break is no empty line. */
  #isAfterZeros = false;

  constructor(encoding: TextEncoding) {
    this.#encoding = encoding;
  }

  /** The lines that begin in a block, the last one first. */
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

  /** Drops the line that is not complete yet. */
  forget(): void {
    this.#rest = EMPTY;
    this.#isAtEnd = false;
    this.#isAfterZeros = false;
  }

  /** @param isZeros  whether zeros, and not a line break, stand before the line */
  #push(lines: RawLine[], offset: number, start: Buffer, isZeros: boolean): void {
    const bytes = this.#rest.length === 0 ? start : Buffer.concat([start, this.#rest]);
    this.#rest = EMPTY;
    this.#isAtEnd = false;
    const isBetweenZeros = bytes.length === 0 && (isZeros || this.#isAfterZeros);
    this.#isAfterZeros = isZeros;
    if (!isBetweenZeros) lines.push({ offset, text: decodeLine(bytes, this.#encoding) });
  }
}
