import type { CommandRow } from '../../../protocol/index.ts';
import { lastCharacters } from '../../core/plain-text.ts';

type Row = CommandRow<'script.run'>;

const FRAME_EVERY_MS = 250;
const WAITING_MAX = 64_000;

/**
 * What a script prints, for those who watch: one frame at a time, a few a second, each with everything since the last
 * one. A script is never kept waiting by the network: what is too much is left out, from the beginning.
 */
export class LiveOutput {
  readonly #send: (rows: readonly Row[]) => Promise<void>;
  #rows: Row[] = [];
  #length = 0;
  #leftOut = 0;
  #timer: NodeJS.Timeout | undefined;
  #isSending = false;
  #lastSentAt = 0;

  constructor(send: (rows: readonly Row[]) => Promise<void>) {
    this.#send = send;
  }

  add(stream: Row['stream'], text: string): void {
    if (text === '') return;
    const last = this.#rows.at(-1);
    // Rows of one stream become one, so that their number is bounded by how often the streams change.
    if (last?.stream === stream) last.text += text;
    else this.#rows.push({ stream, text });
    this.#length += text.length;
    if (this.#length > 2 * WAITING_MAX || this.#rows.length > 100) this.#leaveOut();
    this.#sendSoon();
  }

  /** Sends what is left, and waits for nobody. */
  end(): void {
    clearTimeout(this.#timer);
    if (this.#rows.length > 0) void this.#send(this.#take());
  }

  #sendSoon(): void {
    if (this.#isSending || this.#timer !== undefined) return;
    const waitMs = Math.max(0, this.#lastSentAt + FRAME_EVERY_MS - performance.now());
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#isSending = true;
      this.#lastSentAt = performance.now();
      void this.#send(this.#take()).finally(() => {
        this.#isSending = false;
        if (this.#rows.length > 0) this.#sendSoon();
      });
    }, waitMs);
  }

  #take(): Row[] {
    this.#leaveOut();
    const rows = this.#rows;
    const first = rows[0];
    if (this.#leftOut > 0 && first !== undefined) {
      first.text = `[… ${this.#leftOut} characters are not shown …]\n${first.text}`;
    }
    this.#rows = [];
    this.#length = 0;
    this.#leftOut = 0;
    return rows;
  }

  #leaveOut(): void {
    while (this.#length > WAITING_MAX || this.#rows.length > 100) {
      const [first] = this.#rows;
      if (first === undefined) return;
      const tooMuch = this.#length - WAITING_MAX;
      const kept =
        this.#rows.length > 100 ? '' : lastCharacters(first.text, Math.max(0, first.text.length - tooMuch));
      this.#leftOut += first.text.length - kept.length;
      this.#length -= first.text.length - kept.length;
      if (kept === '') this.#rows.shift();
      else first.text = kept;
    }
  }
}
