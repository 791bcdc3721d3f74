import { ownError } from '../error.ts';

/** What arrives is kept here until the program takes it, in order, and only so much of it. */
export class Channel<T> {
  readonly #max: number;
  #kept: T[] = [];
  #end: { error?: unknown } | undefined;
  #wake: () => void = () => undefined;

  constructor(max: number) {
    this.#max = max;
  }

  push(value: T): void {
    if (this.#end !== undefined) return;
    if (this.#kept.length >= this.#max) {
      this.fail(ownError('TOO_SLOW', 'The program reads more slowly than the server sends.'));
      return;
    }
    this.#kept.push(value);
    this.#wake();
  }

  /** Ends the reading behind what was pushed before. */
  end(): void {
    this.#end ??= {};
    this.#wake();
  }

  /** As `end`, with an error. */
  fail(error: unknown): void {
    this.#end ??= { error };
    this.#wake();
  }

  /** A signal ends the reading at once, with its reason. */
  async *read(signal: AbortSignal | undefined): AsyncGenerator<T, void> {
    const abort = () => this.#wake();
    signal?.addEventListener('abort', abort);
    try {
      for (;;) {
        const taken = this.#kept;
        this.#kept = [];
        for (const value of taken) {
          signal?.throwIfAborted();
          yield value;
        }
        signal?.throwIfAborted();
        if (this.#kept.length > 0) continue;
        if (this.#end !== undefined) {
          if ('error' in this.#end) throw this.#end.error;
          return;
        }
        await new Promise<void>((resolve) => (this.#wake = resolve));
      }
    } finally {
      signal?.removeEventListener('abort', abort);
    }
  }
}
