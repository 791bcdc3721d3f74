/**
 * Assigns a small integer to each device that is in use, so that many maps can refer to the same devices in a few bytes.
 * When the last user releases a device, its number is used for another one.
 */
export class RefCountedDeviceIndex {
  readonly #numbers = new Map<string, number>();
  readonly #ids: string[] = [];
  readonly #references: number[] = [];
  readonly #free: number[] = [];

  /** The number of devices in use. */
  get size(): number {
    return this.#numbers.size;
  }

  /** Returns `undefined` when the device is not in use. */
  find(deviceId: string): number | undefined {
    return this.#numbers.get(deviceId);
  }

  idOf(number: number): string {
    return this.#ids[number] ?? '';
  }

  acquire(deviceId: string): number {
    const known = this.#numbers.get(deviceId);
    const number = known ?? this.#free.pop() ?? this.#ids.length;
    if (known === undefined) {
      this.#numbers.set(deviceId, number);
      this.#ids[number] = deviceId;
      this.#references[number] = 0;
    }
    this.#references[number] = (this.#references[number] ?? 0) + 1;
    return number;
  }

  release(number: number): void {
    const left = (this.#references[number] ?? 0) - 1;
    this.#references[number] = left;
    if (left > 0) return;
    this.#numbers.delete(this.idOf(number));
    this.#ids[number] = '';
    this.#free.push(number);
  }
}
