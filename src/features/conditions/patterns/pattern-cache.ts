interface Sized {
  cost: { size: number };
}

/** The total size of cached patterns: about 40 MB if all of them are compiled. */
const CACHE_SIZE = 20_000;
/** The minimum size of a cached pattern, because small ones take memory as well. */
const MIN_SIZE = 20;

/** Caches the most recently used patterns, so that they are not parsed and compiled again. */
export class PatternCache<P extends Sized> {
  readonly #kept = new Map<string, P>();
  readonly #read: (source: string) => P;
  readonly #sizeMax: number;
  #size = 0;

  constructor(read: (source: string) => P, sizeMax = CACHE_SIZE) {
    this.#read = read;
    this.#sizeMax = sizeMax;
  }

  get(source: string): P {
    const known = this.#kept.get(source);
    const pattern = known ?? this.#read(source);
    if (known === undefined) this.#size += sizeOf(pattern);
    // Moves to the end; the first key is then the least recently used one.
    this.#kept.delete(source);
    this.#kept.set(source, pattern);
    for (const [oldest, dropped] of this.#kept) {
      if (this.#size <= this.#sizeMax || oldest === source) break;
      this.#kept.delete(oldest);
      this.#size -= sizeOf(dropped);
    }
    return pattern;
  }
}

const sizeOf = ({ cost }: Sized) => Math.max(cost.size, MIN_SIZE);
