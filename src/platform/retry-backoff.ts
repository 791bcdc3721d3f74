import { clock } from '../clock.ts';

const FIRST_DELAY_MS = 5000;
const LONGEST_DELAY_MS = 600_000;

/**
 * Keys whose work has failed and is retried later, with a delay that doubles after each failure. One key that keeps
 * failing therefore does not hold up the others.
 */
export class RetryBackoff {
  readonly #failed = new Map<string, { until: number; delayMs: number }>();
  readonly #firstMs: number;
  readonly #longestMs: number;

  constructor({
    firstMs = FIRST_DELAY_MS,
    longestMs = LONGEST_DELAY_MS,
  }: { firstMs?: number; longestMs?: number } = {}) {
    this.#firstMs = firstMs;
    this.#longestMs = longestMs;
  }

  get size(): number {
    return this.#failed.size;
  }

  has(key: string): boolean {
    return this.#failed.has(key);
  }

  keys(): string[] {
    return [...this.#failed.keys()];
  }

  /** Whether the delay of this key is over. */
  isDue(key: string): boolean {
    const found = this.#failed.get(key);
    return found !== undefined && found.until <= clock.monotonic();
  }

  /** The keys whose delay is not over yet. */
  notDue(): string[] {
    return [...this.#failed.keys()].filter((key) => !this.isDue(key));
  }

  /** Records a failure, perhaps a repeated one, and returns the delay before the next attempt. */
  put(key: string): number {
    const before = this.#failed.get(key);
    const delayMs = before === undefined ? this.#firstMs : Math.min(before.delayMs * 2, this.#longestMs);
    this.#failed.set(key, { until: clock.monotonic() + delayMs, delayMs });
    return delayMs;
  }

  /** Forgets a key, because its work has succeeded or is no longer wanted. */
  release(key: string): void {
    this.#failed.delete(key);
  }

  /** Forgets every key that is not in `keys`. */
  keepOnly(keys: ReadonlySet<string>): void {
    for (const key of this.#failed.keys()) if (!keys.has(key)) this.#failed.delete(key);
  }
}
