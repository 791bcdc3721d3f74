import { StringDecoder } from 'node:string_decoder';

/** Splits bytes into lines. What exceeds `maxLength` characters of a line is dropped, so memory stays bounded. */
export class LineSplitter {
  readonly #decoder = new StringDecoder('utf8');
  readonly #maxLength: number;
  #rest = '';

  constructor(maxLength: number) {
    this.#maxLength = maxLength;
  }

  push(bytes: Uint8Array): string[] {
    const parts = this.#decoder
      .write(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength))
      .split('\n');
    const last = parts.pop() ?? '';
    const lines = parts.map((part) => {
      const line = this.#joined(part);
      this.#rest = '';
      return line.endsWith('\r') ? line.slice(0, -1) : line;
    });
    this.#rest = this.#joined(last);
    return lines;
  }

  /** The last line, where it did not end with a line break. */
  end(): string[] {
    const line = this.#joined(this.#decoder.end());
    this.#rest = '';
    return line === '' ? [] : [line];
  }

  #joined(part: string): string {
    const room = this.#maxLength - this.#rest.length;
    return room <= 0 ? this.#rest : this.#rest + part.slice(0, room);
  }
}
