export const LINE_END = 0x0a;

/** A buffer of whole lines. */
export class LineChunk {
  readonly #bytes: Buffer;
  #end = 0;

  constructor(size: number) {
    // Not from the shared pool: a buffer sent to a thread is copied together with its whole underlying memory.
    this.#bytes = Buffer.allocUnsafeSlow(size);
  }

  hasRoomFor(line: Buffer): boolean {
    return this.#end + line.length < this.#bytes.length;
  }

  /** Copies the line and adds a line end. */
  add(line: Buffer): void {
    this.#bytes.set(line, this.#end);
    this.#end += line.length;
    this.#bytes[this.#end++] = LINE_END;
  }

  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#end);
  }
}

/** The complete lines in the bytes, without line ends. */
export function* linesIn(bytes: Buffer): Generator<Buffer> {
  let from = 0;
  for (let end = bytes.indexOf(LINE_END); end >= 0; end = bytes.indexOf(LINE_END, from)) {
    yield bytes.subarray(from, end);
    from = end + 1;
  }
}
