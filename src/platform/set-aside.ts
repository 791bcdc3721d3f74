const FIRST_MS = 5000;
const LONGEST_MS = 600_000;

/**
 * What has failed and is tried again later, each time after twice as long: so that one thing that cannot be done keeps
 * nobody from the others.
 */
export class SetAside {
  readonly #aside = new Map<string, { until: number; delayMs: number }>();
  readonly #firstMs: number;
  readonly #longestMs: number;

  constructor({ firstMs = FIRST_MS, longestMs = LONGEST_MS }: { firstMs?: number; longestMs?: number } = {}) {
    this.#firstMs = firstMs;
    this.#longestMs = longestMs;
  }

  get size(): number {
    return this.#aside.size;
  }

  has(key: string): boolean {
    return this.#aside.has(key);
  }

  /** Whether it is time to try again. */
  isDue(key: string): boolean {
    const found = this.#aside.get(key);
    return found !== undefined && found.until <= performance.now();
  }

  /** What has to wait still. */
  notDue(): string[] {
    return [...this.#aside.keys()].filter((key) => !this.isDue(key));
  }

  /** It has failed, perhaps again. Answers after which time it is due. */
  put(key: string): number {
    const before = this.#aside.get(key);
    const delayMs = before === undefined ? this.#firstMs : Math.min(before.delayMs * 2, this.#longestMs);
    this.#aside.set(key, { until: performance.now() + delayMs, delayMs });
    return delayMs;
  }

  release(key: string): void {
    this.#aside.delete(key);
  }

  /** Forgets what is not there any more. */
  keepOnly(keys: ReadonlySet<string>): void {
    for (const key of this.#aside.keys()) if (!keys.has(key)) this.#aside.delete(key);
  }
}
