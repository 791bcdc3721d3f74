/** Random numbers that a seed determines. Each part of the world draws from a stream of its own. */
export class Random {
  #a: number;
  #b: number;
  #c: number;
  #d = 1;

  constructor(seed: number, stream: string) {
    let hash = 2_166_136_261;
    for (const character of stream) hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 16_777_619);
    this.#a = seed | 0;
    this.#b = (seed / 4_294_967_296) | 0;
    this.#c = hash | 0;
    for (let round = 0; round < 15; round++) this.next();
  }

  /** From 0 up to 1 (sfc32). */
  next(): number {
    const sum = (((this.#a + this.#b) | 0) + this.#d) | 0;
    this.#d = (this.#d + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = (this.#c << 21) | (this.#c >>> 11);
    this.#c = (this.#c + sum) | 0;
    return (sum >>> 0) / 4_294_967_296;
  }

  between(low: number, high: number): number {
    return low + this.next() * (high - low);
  }

  /** A whole number from `low` to `high`. */
  whole(low: number, high: number): number {
    return low + Math.floor(this.next() * (high - low + 1));
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<T>(items: readonly T[]): T {
    const item = items[Math.floor(this.next() * items.length)];
    if (item === undefined) throw new Error('There is nothing to choose from.');
    return item;
  }

  /** Mostly short, rarely long: times between events that do not know of each other. */
  wait(meanMs: number): number {
    return -Math.log(1 - this.next()) * meanMs;
  }
}
