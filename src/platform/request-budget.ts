import { clock } from '../clock.ts';

/**
 * How many requests each of many may make within a window of time, which is the same for all. Within this process, and
 * for as little as a count in a map: it is asked with every request.
 */
export class RequestBudget {
  readonly #requests: number;
  readonly #windowMs: number;
  #counts = new Map<string, number>();
  #windowStart = Number.NEGATIVE_INFINITY;

  constructor({ requests, windowMs }: { requests: number; windowMs: number }) {
    this.#requests = requests;
    this.#windowMs = windowMs;
  }

  /**
   * Counts a request.
   * @param now  in milliseconds, by a clock that only goes forward
   * @returns `undefined`, or after how many milliseconds there will be room for another request
   */
  spend(key: string, now = clock.monotonic()): number | undefined {
    if (now - this.#windowStart >= this.#windowMs) {
      this.#windowStart = now;
      this.#counts = new Map();
    }
    const count = (this.#counts.get(key) ?? 0) + 1;
    this.#counts.set(key, count);
    return count > this.#requests ? this.#windowStart + this.#windowMs - now : undefined;
  }
}
