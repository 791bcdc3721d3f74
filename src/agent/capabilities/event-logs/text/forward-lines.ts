import type { FileHandle } from 'node:fs/promises';
import type { RawLine } from './backward-lines.ts';
import { decodeLine, isZero, LINE_BYTES_MAX, nextBreak, unitOf, type TextEncoding } from './text-encoding.ts';

const BLOCK = 64 * 1024;
const EMPTY = Buffer.alloc(0);

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
    // Half a character is read when the other half is there.
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
