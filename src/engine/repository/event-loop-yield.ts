import { clock } from '../../clock.ts';

const TURN_MS = 10;

/** Lets everything else in this process go on while a long piece of work is done. */
export class Turns {
  #since = clock.monotonic();

  /** Called between small steps: waits for the others where this one has had its turn. */
  async next(): Promise<void> {
    if (clock.monotonic() - this.#since < TURN_MS) return;
    await new Promise((resolve) => setImmediate(resolve));
    this.#since = clock.monotonic();
  }
}
