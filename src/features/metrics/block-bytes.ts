/** The most slots of a block: more than the minutes of a day. */
export const SLOTS_MAX = 2048;
/** The most figures of a block: more than 24 hours with as many series as an hour may have. */
export const POINTS_MAX = 2 ** 19;

/** The longest slot: a week, which is the longest step of a chart. Times stay far within what a date can be. */
const STEP_SECONDS_MAX = 7 * 86_400;

/** The bytes are no block. */
export class DamagedBlock extends Error {}

/** Bytes that grow. */
export class Writer {
  #bytes = Buffer.allocUnsafe(256);
  #length = 0;

  byte(value: number): void {
    this.#reserve(1);
    this.#bytes[this.#length++] = value;
  }

  number(value: number): void {
    // A number has at most eight bytes.
    this.#reserve(8);
    let rest = value;
    while (rest >= 0x80) {
      this.#bytes[this.#length++] = (rest % 0x80) + 0x80;
      rest = Math.floor(rest / 0x80);
    }
    this.#bytes[this.#length++] = rest;
  }

  text(text: string): void {
    const length = Buffer.byteLength(text);
    this.number(length);
    this.#reserve(length);
    this.#length += this.#bytes.write(text, this.#length);
  }

  /** What another one has, with its length before it. */
  part(part: Writer): void {
    this.number(part.#length);
    this.#reserve(part.#length);
    part.#bytes.copy(this.#bytes, this.#length, 0, part.#length);
    this.#length += part.#length;
  }

  /**
   * The lowest seven bits of each number and whether it has more, one byte each, then the rest of those that have more:
   * bytes of one kind that lie together are compressed best.
   */
  numbers(values: readonly number[]): void {
    for (const value of values) this.byte((value % 0x80) + (value < 0x80 ? 0 : 0x80));
    for (const value of values) if (value >= 0x80) this.number(Math.floor(value / 0x80));
  }

  /** @param slots  ascending */
  bits(slots: readonly number[]): void {
    const length = Math.floor((slots.at(-1) ?? -1) / 8) + 1;
    this.number(length);
    this.#reserve(length);
    this.#bytes.fill(0, this.#length, this.#length + length);
    for (const slot of slots) {
      const at = this.#length + Math.floor(slot / 8);
      this.#bytes[at] = (this.#bytes[at] ?? 0) + 2 ** (slot % 8);
    }
    this.#length += length;
  }

  column(values: readonly number[]): void {
    let before = 0;
    let zeros = 0;
    for (const value of values) {
      const difference = value - before;
      before = value;
      if (difference === 0) {
        zeros += 1;
        continue;
      }
      this.#zeros(zeros);
      zeros = 0;
      this.number(difference > 0 ? difference * 2 : -difference * 2 - 1);
    }
    this.#zeros(zeros);
  }

  #zeros(count: number): void {
    if (count === 0) return;
    this.number(0);
    this.number(count - 1);
  }

  clear(): void {
    this.#length = 0;
  }

  bytes(): Buffer {
    return Buffer.from(this.#bytes.subarray(0, this.#length));
  }

  #reserve(more: number): void {
    if (this.#length + more <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(2 * (this.#length + more));
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }
}

export class Reader {
  readonly #bytes: Uint8Array;
  position = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.position >= this.#bytes.length;
  }

  byte(): number {
    const byte = this.#bytes[this.position];
    if (byte === undefined) throw new DamagedBlock('The block ends too early.');
    this.position += 1;
    return byte;
  }

  number(): number {
    let value = 0;
    let factor = 1;
    for (;;) {
      const byte = this.byte();
      value += (byte % 0x80) * factor;
      if (byte < 0x80) break;
      factor *= 0x80;
      if (factor > Number.MAX_SAFE_INTEGER) throw new DamagedBlock('A number of the block is too large.');
    }
    return value;
  }

  /** A number that says how many of something follow. */
  count(atMost: number): number {
    const count = this.number();
    if (count > atMost) throw new DamagedBlock('The block says that it has more than a block may have.');
    return count;
  }

  /** The seconds of a slot. */
  step(): number {
    const seconds = this.count(STEP_SECONDS_MAX);
    if (seconds === 0) throw new DamagedBlock('The slots of the block have no length.');
    return seconds;
  }

  /** As many numbers as `Writer.numbers` wrote. */
  numbers(count: number): number[] {
    const lowest = this.pass(count);
    return Array.from(lowest, (byte) => (byte < 0x80 ? byte : (byte % 0x80) + this.number() * 0x80));
  }

  pass(length: number): Uint8Array {
    const start = this.position;
    this.moveTo(start + length);
    return this.#bytes.subarray(start, start + length);
  }

  moveTo(position: number): void {
    if (position > this.#bytes.length) throw new DamagedBlock('The block ends too early.');
    this.position = position;
  }

  bits(): number[] {
    const bytes = this.pass(this.number());
    if (bytes.length > SLOTS_MAX / 8) throw new DamagedBlock('The block has too many slots.');
    const slots: number[] = [];
    for (const [at, byte] of bytes.entries()) {
      for (let bit = 0; bit < 8; bit += 1) {
        if (Math.floor(byte / 2 ** bit) % 2 === 1) slots.push(at * 8 + bit);
      }
    }
    return slots;
  }

  column(length: number): number[] {
    const values: number[] = [];
    let value = 0;
    while (values.length < length) {
      const code = this.number();
      if (code === 0) {
        const more = this.number();
        if (more >= length - values.length) throw new DamagedBlock('A column of the block is too long.');
        for (let count = 0; count <= more; count += 1) values.push(value);
        continue;
      }
      value += code % 2 === 0 ? code / 2 : -(code + 1) / 2;
      values.push(value);
    }
    return values;
  }
}
