/**
 * A small number for each device that somebody holds, so that many can note something of the same devices in a few
 * bytes. It is given to another device when the last has let it go.
 */
export class DeviceNumbers {
  readonly #numbers = new Map<string, number>();
  readonly #ids: string[] = [];
  readonly #holders: number[] = [];
  readonly #free: number[] = [];

  /** How many devices are held. */
  get size(): number {
    return this.#numbers.size;
  }

  /** `undefined` where nobody holds the device. */
  find(deviceId: string): number | undefined {
    return this.#numbers.get(deviceId);
  }

  idOf(number: number): string {
    return this.#ids[number] ?? '';
  }

  hold(deviceId: string): number {
    const known = this.#numbers.get(deviceId);
    const number = known ?? this.#free.pop() ?? this.#ids.length;
    if (known === undefined) {
      this.#numbers.set(deviceId, number);
      this.#ids[number] = deviceId;
      this.#holders[number] = 0;
    }
    this.#holders[number] = (this.#holders[number] ?? 0) + 1;
    return number;
  }

  release(number: number): void {
    const left = (this.#holders[number] ?? 0) - 1;
    this.#holders[number] = left;
    if (left > 0) return;
    this.#numbers.delete(this.idOf(number));
    this.#ids[number] = '';
    this.#free.push(number);
  }
}
