import { clock } from '../../clock.ts';

const TURN_MS = 10;

/** Yields to the event loop during long work, so that other work of the process continues. */
export class EventLoopYield {
  #since = clock.monotonic();

  /** Called between small steps. Returns at once unless 10 ms have passed since the last yield. */
  async yield(): Promise<void> {
    if (clock.monotonic() - this.#since < TURN_MS) return;
    await new Promise((resolve) => setImmediate(resolve));
    this.#since = clock.monotonic();
  }
}
