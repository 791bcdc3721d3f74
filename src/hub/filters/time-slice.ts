import { clock } from '../../clock.ts';

const SLICE_MS = 4;
/** A pause for work that nobody waits for: it leaves three quarters of the time to others. */
export const BACKGROUND_PAUSE_MS = 12;

/** Divides long work into slices, between which the event loop handles other work. */
export class TimeSlice {
  readonly #pauseMs: number;
  #until = clock.monotonic() + SLICE_MS;

  /** @param pauseMs  by default the work continues as soon as the event loop has handled what was waiting */
  constructor(pauseMs = 0) {
    this.#pauseMs = pauseMs;
  }

  get isOver(): boolean {
    return clock.monotonic() > this.#until;
  }

  async next(): Promise<void> {
    await new Promise<void>((resolve) => {
      if (this.#pauseMs === 0) setImmediate(resolve);
      else clock.setTimeout(() => resolve(), this.#pauseMs);
    });
    this.#until = clock.monotonic() + SLICE_MS;
  }
}
