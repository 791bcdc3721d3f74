import { clock, type Timer } from '../../clock.ts';

export interface RepeatedCheckOptions {
  everyMs: number;
  check: () => Promise<unknown>;
  /** Called with the first of several failures in a row, such as those of a database that is away. */
  onFailing: (error: unknown) => void;
}

/** A check that every server repeats, each time some time after the last one has ended, whether or not that failed. */
export class RepeatedCheck {
  readonly #options: RepeatedCheckOptions;
  #timer: Timer | undefined;
  #running: Promise<void> = Promise.resolve();
  #isFailing = false;
  #isClosed = false;

  constructor(options: RepeatedCheckOptions) {
    this.#options = options;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  start(): void {
    this.#timer = clock.setTimeout(() => void this.#next(), this.#options.everyMs).unref();
  }

  /** Checks now, and begins the time until the next check anew. */
  async settle(): Promise<void> {
    await this.#running;
    if (this.#isClosed) return;
    clock.clear(this.#timer);
    await this.#next();
  }

  /** Resolves when a check that is under way has ended. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clock.clear(this.#timer);
    await this.#running;
  }

  #next(): Promise<void> {
    this.#running = this.#check().then(() => {
      if (!this.#isClosed) this.start();
    });
    return this.#running;
  }

  async #check(): Promise<void> {
    try {
      await this.#options.check();
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) this.#options.onFailing(error);
      this.#isFailing = true;
    }
  }
}
