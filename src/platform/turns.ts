import { setImmediate as othersTurn } from 'node:timers/promises';
import { clock } from '../clock.ts';

/**
 * A long computation in pieces, each of which ends with a `yield`. A generator and not an async function, because pieces
 * are short, and the event loop is given to others only when many of them have taken a while.
 */
export type Pieces<T> = Generator<void, T, void>;

/** Others wait for no longer than this and one piece. */
const TURN_MS = 10;

/** Gives others their turn between the pieces of computations. */
export class Turns {
  #since = clock.monotonic();

  async finish<T>(pieces: Pieces<T>): Promise<T> {
    for (;;) {
      const { done, value } = pieces.next();
      if (done === true) return value;
      if (clock.monotonic() - this.#since >= TURN_MS) {
        await othersTurn();
        this.#since = clock.monotonic();
      }
    }
  }
}

/** The same at once, for computations that are short in all. */
export function finished<T>(pieces: Pieces<T>): T {
  for (;;) {
    const { done, value } = pieces.next();
    if (done === true) return value;
  }
}
