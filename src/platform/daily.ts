import type { Logger } from './logger.ts';

const DAY_MS = 24 * 3_600_000;
/** Not while the server starts, and not on all of its nodes at once. */
const FIRST_MS = 300_000;

export interface DailyWork {
  /** One round. What it answers is logged. */
  run: () => Promise<object>;
  log: Logger;
  /** The events to log a round under. */
  done: string;
  failed: string;
}

/** Calls for a round once a day, one at a time. A round that fails is logged, and the next one comes as ever. */
export class Daily {
  readonly #work: DailyWork;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(work: DailyWork) {
    this.#work = work;
  }

  start(): void {
    this.#in(FIRST_MS * (1 + Math.random()));
  }

  /** No round begins any more; waits for the one under way. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#running;
  }

  #in(ms: number): void {
    this.#timer = setTimeout(() => {
      const { run, log, done, failed } = this.#work;
      this.#running = run()
        .then(
          (result) => log.info(result, done),
          (error: unknown) => log.warn({ err: error }, failed),
        )
        .then(() => {
          if (!this.#isClosed) this.#in(DAY_MS);
        });
    }, ms).unref();
  }
}
