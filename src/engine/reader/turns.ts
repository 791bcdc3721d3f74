import { performance } from 'node:perf_hooks';
import { setImmediate } from 'node:timers/promises';

const TURN_MS = 10;

/** Lets everything else in this process go on while a long piece of work is done. */
export class Turns {
  #since = performance.now();

  /** Called between small steps: waits for the others where this one has had its turn. */
  async next(): Promise<void> {
    if (performance.now() - this.#since < TURN_MS) return;
    await setImmediate();
    this.#since = performance.now();
  }
}
