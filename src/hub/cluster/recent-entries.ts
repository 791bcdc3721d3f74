import { clock } from '../../clock.ts';

/**
 * A node that begins to show a tenant reads it from the database, which is written up to a second after a change, while
 * its announcement is on the way to the other nodes. They keep for so long what may fall between the two.
 */
export const MISSED_MS = 3000;

/**
 * Entries of the last moments: each is kept for at least `keptMs` and at most twice as long. They are kept in two
 * generations, so that no entry has to be removed by itself.
 */
export class RecentEntries<T> {
  readonly #keptMs: number;
  #latest = new Map<string, T>();
  #previous = new Map<string, T>();
  #since = clock.monotonic();

  constructor(keptMs: number) {
    this.#keptMs = keptMs;
  }

  /** Adds an entry. @param entry  returns it, joined with an earlier one of the same key */
  note(key: string, entry: (earlier: T | undefined) => T): void {
    this.#rotate();
    this.#latest.set(key, entry(this.#latest.get(key)));
  }

  has(key: string): boolean {
    this.#rotate();
    return this.#latest.has(key) || this.#previous.has(key);
  }

  /** The entries of a key, the older one first. */
  of(key: string): readonly [T | undefined, T | undefined] {
    this.#rotate();
    return [this.#previous.get(key), this.#latest.get(key)];
  }

  /** All entries with their keys, the older ones first. A key may occur twice. */
  *entries(): Iterable<[string, T]> {
    this.#rotate();
    yield* this.#previous;
    yield* this.#latest;
  }

  #rotate(): void {
    const age = clock.monotonic() - this.#since;
    if (age < this.#keptMs) return;
    this.#previous = age < 2 * this.#keptMs ? this.#latest : new Map();
    this.#latest = new Map();
    this.#since = clock.monotonic();
  }
}
