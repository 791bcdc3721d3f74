import { StringDecoder } from 'node:string_decoder';
import { SCRIPT_OUTPUT_MAX } from '../../../protocol/index.ts';
import { lastBytes, lastCharacters, plainText } from '../../core/plain-text.ts';

/** Some characters take six bytes in a message; two streams of this size still fit into one. */
const STREAM_MAX_BYTES = 400_000;

/** The end of one stream, as text; what came before is forgotten. */
export class CapturedOutput {
  readonly #decoder = new StringDecoder('utf8');
  #parts: string[] = [];
  #length = 0;
  #isCut = false;

  /** Answers the text that has become whole with these bytes. */
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
    // In bulk: a script that prints byte by byte makes many small parts.
    if (this.#length > 2 * SCRIPT_OUTPUT_MAX) {
      const kept = lastCharacters(this.#parts.join(''), SCRIPT_OUTPUT_MAX);
      this.#parts = [kept];
      this.#length = kept.length;
      this.#isCut = true;
    }
    return text;
  }
}
