interface Sized {
  cost: { size: number };
}

/** All that are kept may have this size together: some 40 MB where each of them was compiled. */
const KEPT_SIZE = 20_000;
/** A small pattern takes some room as well. */
const SIZE_AT_LEAST = 20;

/** Keeps the patterns that were asked for last, so that the same one is neither read nor compiled again. */
export class PatternCache<P extends Sized> {
  readonly #kept = new Map<string, P>();
  readonly #read: (source: string) => P;
  readonly #sizeMax: number;
  #size = 0;

  constructor(read: (source: string) => P, sizeMax = KEPT_SIZE) {
    this.#read = read;
    this.#sizeMax = sizeMax;
  }

  get(source: string): P {
    const known = this.#kept.get(source);
    const pattern = known ?? this.#read(source);
    if (known === undefined) this.#size += sizeOf(pattern);
    // It moves behind all others: the first is the one that nobody has asked for the longest.
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

const sizeOf = ({ cost }: Sized) => Math.max(cost.size, SIZE_AT_LEAST);
