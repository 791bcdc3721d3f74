export const LINE_END = 0x0a;

/** Lines in one piece of memory. */
export class LineChunk {
  readonly #bytes: Buffer;
  #end = 0;

  constructor(size: number) {
    // Not of the pool: what is handed to a thread is copied with all the memory it is part of.
    this.#bytes = Buffer.allocUnsafeSlow(size);
  }

  hasRoomFor(line: Buffer): boolean {
    return this.#end + line.length < this.#bytes.length;
  }

  /** Copies it. */
  add(line: Buffer): void {
    this.#bytes.set(line, this.#end);
    this.#end += line.length;
    this.#bytes[this.#end++] = LINE_END;
  }

  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#end);
  }
}

/** The whole lines among the bytes, without their ends. */
export function* linesIn(bytes: Buffer): Generator<Buffer> {
  let from = 0;
  for (let end = bytes.indexOf(LINE_END); end >= 0; end = bytes.indexOf(LINE_END, from)) {
    yield bytes.subarray(from, end);
    from = end + 1;
  }
}
