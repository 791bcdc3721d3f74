/** The value of a key that is not in the map. */
export const NONE = 0;

const INITIAL_SIZE = 16;
/** 2³² divided by the golden ratio (Fibonacci hashing): consecutive keys are spread over the table. */
const MULTIPLIER = 0x9e3779b1;

/**
 * Maps integers to values from 1 to 255. An entry takes 8 to 16 bytes instead of the 46 of a `Map`. It is a hash table
 * with open addressing and linear probing. It does not shrink.
 */
export class CompactByteMap {
  #numbers = new Uint32Array(INITIAL_SIZE);
  #codes = new Uint8Array(INITIAL_SIZE);
  #shift = 32 - Math.log2(INITIAL_SIZE);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get(number: number): number {
    return this.#codes[this.#slotOf(number)] ?? NONE;
  }

  set(number: number, code: number): void {
    const slot = this.#slotOf(number);
    if (this.#codes[slot] === NONE) this.#size += 1;
    this.#numbers[slot] = number;
    this.#codes[slot] = code;
    if (this.#size * 8 > this.#codes.length * 5) this.#grow();
  }

  delete(number: number): void {
    const slot = this.#slotOf(number);
    if (this.#codes[slot] === NONE) return;
    this.#codes[slot] = NONE;
    this.#size -= 1;
    this.#closeGap(slot);
  }

  *numbers(): Iterable<number> {
    for (const [slot, code] of this.#codes.entries()) if (code !== NONE) yield this.#numbers[slot] ?? 0;
  }

  /** The slot that contains the key, or the empty one where it would be stored. There is always an empty slot. */
  #slotOf(number: number): number {
    let slot = this.#homeOf(number);
    while (this.#codes[slot] !== NONE && this.#numbers[slot] !== number) slot = this.#after(slot);
    return slot;
  }

  #homeOf(number: number): number {
    return Math.imul(number, MULTIPLIER) >>> this.#shift;
  }

  #after(slot: number): number {
    return (slot + 1) & (this.#codes.length - 1);
  }

  /** Moves up entries behind an emptied slot whose search would otherwise end there. */
  #closeGap(emptied: number): void {
    const mask = this.#codes.length - 1;
    let gap = emptied;
    for (let slot = this.#after(gap); this.#codes[slot] !== NONE; slot = this.#after(slot)) {
      const number = this.#numbers[slot] ?? 0;
      const fromHome = (slot - this.#homeOf(number)) & mask;
      const fromGap = (slot - gap) & mask;
      if (fromHome < fromGap) continue;
      this.#numbers[gap] = number;
      this.#codes[gap] = this.#codes[slot] ?? NONE;
      this.#codes[slot] = NONE;
      gap = slot;
    }
  }

  #grow(): void {
    const numbers = this.#numbers;
    const codes = this.#codes;
    this.#numbers = new Uint32Array(2 * codes.length);
    this.#codes = new Uint8Array(2 * codes.length);
    this.#shift -= 1;
    for (const [from, code] of codes.entries()) {
      if (code === NONE) continue;
      const number = numbers[from] ?? 0;
      const to = this.#slotOf(number);
      this.#numbers[to] = number;
      this.#codes[to] = code;
    }
  }
}
