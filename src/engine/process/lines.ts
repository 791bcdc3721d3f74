export interface Line {
  text: string;
  /** The rest of the line was longer than allowed, and was dropped. */
  isCut: boolean;
}

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/** Splits bytes into lines. What exceeds `maxBytes` of a line is dropped, so memory stays bounded. */
export class LineSplitter {
  readonly #maxBytes: number;
  readonly #decode: (line: Buffer) => string;
  #parts: Buffer[] = [];
  #length = 0;
  #isCut = false;

  constructor(maxBytes: number, decode: (line: Buffer) => string = (line) => line.toString('utf8')) {
    this.#maxBytes = maxBytes;
    this.#decode = decode;
  }

  push(bytes: Uint8Array): Line[] {
    const given = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const lines: Line[] = [];
    let from = 0;
    for (let end = given.indexOf(LINE_FEED); end !== -1; end = given.indexOf(LINE_FEED, from)) {
      this.#add(given.subarray(from, end));
      lines.push(this.#take());
      from = end + 1;
    }
    this.#add(given.subarray(from));
    return lines;
  }

  /** The last line, where it did not end with a line break. */
  end(): Line[] {
    return this.#length === 0 ? [] : [this.#take()];
  }

  #add(bytes: Buffer): void {
    const kept = bytes.subarray(0, this.#maxBytes - this.#length);
    if (kept.length < bytes.length) this.#isCut = true;
    if (kept.length === 0) return;
    // A copy, so that a short line does not keep a whole piece of the output in memory.
    this.#parts.push(Buffer.from(kept));
    this.#length += kept.length;
  }

  #take(): Line {
    const bytes = Buffer.concat(this.#parts);
    const line = { text: this.#decode(withoutReturn(bytes)), isCut: this.#isCut };
    this.#parts = [];
    this.#length = 0;
    this.#isCut = false;
    return line;
  }
}

const withoutReturn = (line: Buffer) => (line.at(-1) === CARRIAGE_RETURN ? line.subarray(0, -1) : line);
