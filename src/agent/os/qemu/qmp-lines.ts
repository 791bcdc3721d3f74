import { StringDecoder } from 'node:string_decoder';

/** Cuts what a monitor writes into lines. A line that does not end within the limit ends the connection. */
export class QmpLines {
  readonly #decoder = new StringDecoder('utf8');
  readonly #max: number;
  #rest: string[] = [];
  #length = 0;

  constructor(maxLength: number) {
    this.#max = maxLength;
  }

  /** Throws where a line is too long. */
  push(bytes: Buffer): string[] {
    const [first = '', ...others] = this.#decoder.write(bytes).split('\n');
    this.#keep(first);
    const lines: string[] = [];
    for (const text of others) {
      lines.push(this.#rest.join('').trim());
      this.#rest = [];
      this.#length = 0;
      this.#keep(text);
    }
    return lines.filter((line) => line !== '');
  }

  #keep(text: string): void {
    this.#length += text.length;
    if (this.#length > this.#max) {
      throw new Error(`The monitor wrote a line of more than ${this.#max} characters.`);
    }
    if (text !== '') this.#rest.push(text);
  }
}
