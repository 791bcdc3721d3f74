/** What is answered of a number that is not in it. */
export const NONE = 0;

const SMALLEST = 16;
/** 2 to the power of 32, divided by the golden ratio: numbers that follow each other come to lie far apart. */
const SPREAD = 0x9e3779b1;

/**
 * A code from 1 to 255 for each of some numbers, in 8 to 16 bytes, where a `Map` takes 46: a hash table of
 * open addressing with linear probing. It does not shrink.
 */
export class CodeTable {
  #numbers = new Uint32Array(SMALLEST);
  #codes = new Uint8Array(SMALLEST);
  #shift = 32 - Math.log2(SMALLEST);
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

  /** Where the number is, or would be put. There always is an empty slot. */
  #slotOf(number: number): number {
    let slot = this.#homeOf(number);
    while (this.#codes[slot] !== NONE && this.#numbers[slot] !== number) slot = this.#after(slot);
    return slot;
  }

  #homeOf(number: number): number {
    return Math.imul(number, SPREAD) >>> this.#shift;
  }

  #after(slot: number): number {
    return (slot + 1) & (this.#codes.length - 1);
  }

  /** Those behind an emptied slot that could not be put there, or before it, move up: a search ends at an empty one. */
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
