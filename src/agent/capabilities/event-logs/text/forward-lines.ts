import type { FileHandle } from 'node:fs/promises';
import { decodeLine, LINE_BYTES_MAX, type RawLine } from './backward-lines.ts';

const CHUNK = 64 * 1024;
const NEWLINE = 10;

/** Reads lines from a position onwards, and continues there when the file has grown. */
export class ForwardLines {
  #position: number;
  #rest: Buffer = Buffer.alloc(0);
  #restOffset: number;
  readonly #buffer = Buffer.allocUnsafe(CHUNK);

  constructor(offset: number) {
    this.#position = offset;
    this.#restOffset = offset;
  }

  /** The position up to which the file was read. */
  get position(): number {
    return this.#position;
  }

  /** The next complete lines, or `undefined` at the present end of the file. */
  async read(handle: FileHandle): Promise<RawLine[] | undefined> {
    const { bytesRead } = await handle.read(this.#buffer, 0, CHUNK, this.#position);
    if (bytesRead === 0) return undefined;
    const chunk = this.#buffer.subarray(0, bytesRead);
    const lines: RawLine[] = [];
    let start = 0;
    for (;;) {
      const at = chunk.indexOf(NEWLINE, start);
      if (at === -1) break;
      const piece = chunk.subarray(start, at);
      const whole = this.#rest.length === 0 ? piece : Buffer.concat([this.#rest, piece]);
      lines.push({ offset: this.#restOffset, text: decodeLine(whole) });
      this.#rest = Buffer.alloc(0);
      start = at + 1;
      this.#restOffset = this.#position + start;
    }
    if (this.#rest.length <= LINE_BYTES_MAX) {
      this.#rest = Buffer.concat([this.#rest, chunk.subarray(start)]).subarray(0, LINE_BYTES_MAX + 4);
    }
    this.#position += bytesRead;
    return lines;
  }

  /** The last line, if no line break ends it. */
  end(): RawLine[] {
    if (this.#rest.length === 0) return [];
    const line = { offset: this.#restOffset, text: decodeLine(this.#rest) };
    this.#rest = Buffer.alloc(0);
    return [line];
  }
}
