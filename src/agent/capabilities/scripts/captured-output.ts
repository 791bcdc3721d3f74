import { StringDecoder } from 'node:string_decoder';
import { SCRIPT_OUTPUT_MAX } from '../../../protocol/index.ts';
import { lastBytes, lastCharacters, plainText } from '../../core/plain-text.ts';

/** Two streams of this size fit into one message, even where characters take six bytes. */
const STREAM_MAX_BYTES = 400_000;

/** Keeps the end of one stream as text. */
export class CapturedOutput {
  readonly #decoder = new StringDecoder('utf8');
  #parts: string[] = [];
  #length = 0;
  #isCut = false;

  /** Returns the text that these bytes complete. */
  add(bytes: Buffer): string {
    return this.#keep(plainText(this.#decoder.write(bytes)));
  }

  end(): { text: string; isCut: boolean } {
    this.#keep(plainText(this.#decoder.end()));
    const all = this.#parts.join('');
    const text = lastBytes(lastCharacters(all, SCRIPT_OUTPUT_MAX), STREAM_MAX_BYTES);
    return { text, isCut: this.#isCut || text.length < all.length };
  }

  #keep(text: string): string {
    this.#parts.push(text);
    this.#length += text.length;
    // Trimming rarely is cheaper: a script that prints byte by byte makes many small parts.
    if (this.#length > 2 * SCRIPT_OUTPUT_MAX) {
      const kept = lastCharacters(this.#parts.join(''), SCRIPT_OUTPUT_MAX);
      this.#parts = [kept];
      this.#length = kept.length;
      this.#isCut = true;
    }
    return text;
  }
}
