import { clock, type Timer } from '../../../clock.ts';
import type { CommandRow } from '../../../protocol/index.ts';
import { lastCharacters } from '../../core/plain-text.ts';

type Row = CommandRow<'script.run'>;

const FRAME_EVERY_MS = 250;
const WAITING_MAX = 64_000;

/**
 * Streams the output of a script to the people who watch it: one frame at a time and a few each second, each with
 * everything since the last one. The network never delays a script: when there is too much output, the oldest part is
 * omitted.
 */
export class LiveOutput {
  readonly #send: (rows: readonly Row[]) => Promise<void>;
  #rows: Row[] = [];
  #length = 0;
  #omitted = 0;
  #timer: Timer | undefined;
  #isSending = false;
  #lastSentAt = 0;

  constructor(send: (rows: readonly Row[]) => Promise<void>) {
    this.#send = send;
  }

  add(stream: Row['stream'], text: string): void {
    if (text === '') return;
    const last = this.#rows.at(-1);
    // Consecutive output of one stream becomes one row, which bounds the number of rows.
    if (last?.stream === stream) last.text += text;
    else this.#rows.push({ stream, text });
    this.#length += text.length;
    if (this.#length > 2 * WAITING_MAX || this.#rows.length > 100) this.#omitOldest();
    this.#sendSoon();
  }

  /** Sends the rest without waiting for its delivery. */
  end(): void {
    clock.clear(this.#timer);
    if (this.#rows.length > 0) void this.#send(this.#take());
  }

  #sendSoon(): void {
    if (this.#isSending || this.#timer !== undefined) return;
    const waitMs = Math.max(0, this.#lastSentAt + FRAME_EVERY_MS - clock.monotonic());
    this.#timer = clock.setTimeout(() => {
      this.#timer = undefined;
      this.#isSending = true;
      this.#lastSentAt = clock.monotonic();
      void this.#send(this.#take()).finally(() => {
        this.#isSending = false;
        if (this.#rows.length > 0) this.#sendSoon();
      });
    }, waitMs);
  }

  #take(): Row[] {
    this.#omitOldest();
    const rows = this.#rows;
    const first = rows[0];
    if (this.#omitted > 0 && first !== undefined) {
      first.text = `[… ${this.#omitted} characters are not shown …]\n${first.text}`;
    }
    this.#rows = [];
    this.#length = 0;
    this.#omitted = 0;
    return rows;
  }

  #omitOldest(): void {
    while (this.#length > WAITING_MAX || this.#rows.length > 100) {
      const [first] = this.#rows;
      if (first === undefined) return;
      const excess = this.#length - WAITING_MAX;
      const kept =
        this.#rows.length > 100 ? '' : lastCharacters(first.text, Math.max(0, first.text.length - excess));
      this.#omitted += first.text.length - kept.length;
      this.#length -= first.text.length - kept.length;
      if (kept === '') this.#rows.shift();
      else first.text = kept;
    }
  }
}
