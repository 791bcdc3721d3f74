import { type DeviceCounts, DeviceStatus } from '../../protocol/index.ts';

/** The value of a key that is not in the map. */
const NONE = 0;

const INITIAL_SIZE = 16;
/** 2³² divided by the golden ratio (Fibonacci hashing): consecutive keys are spread over the table. */
const MULTIPLIER = 0x9e3779b1;

/**
 * Maps integers to values from 1 to 255. An entry takes 8 to 16 bytes instead of the 46 of a `Map`. It is a hash table
 * with open addressing and linear probing. It does not shrink.
 */
class CompactByteMap {
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

/** The device index that all instances in this process share. */
const SHARED_INDEX = new RefCountedDeviceIndex();

const STATUSES = DeviceStatus.options;
const codeOf = (status: DeviceStatus) => STATUSES.indexOf(status) + 1;

/**
 * The status of each device that a subscriber was shown, and the number of devices with each status, counted as they
 * change. A thousand dashboards may show the same ten thousand devices, and a change is looked up once for each of them:
 * hence integer keys in a compact map instead of ids.
 */
export class ShownStatuses {
  readonly #devices: RefCountedDeviceIndex;
  readonly #codes = new CompactByteMap();
  readonly #byCode = new Uint32Array(STATUSES.length + 1);
  #counts: DeviceCounts | undefined;

  constructor(devices = SHARED_INDEX) {
    this.#devices = devices;
  }

  has(deviceId: string): boolean {
    return this.get(deviceId) !== undefined;
  }

  get(deviceId: string): DeviceStatus | undefined {
    const device = this.#devices.find(deviceId);
    return device === undefined ? undefined : STATUSES[this.#codes.get(device) - 1];
  }

  ids(): string[] {
    return Array.from(this.#codes.numbers(), (device) => this.#devices.idOf(device));
  }

  set(deviceId: string, status: DeviceStatus): void {
    const known = this.#devices.find(deviceId);
    const before = known === undefined ? NONE : this.#codes.get(known);
    const code = codeOf(status);
    if (before === code) return;
    const device = known === undefined || before === NONE ? this.#devices.acquire(deviceId) : known;
    this.#codes.set(device, code);
    this.#count(before, -1);
    this.#count(code, 1);
  }

  delete(deviceId: string): void {
    const device = this.#devices.find(deviceId);
    const before = device === undefined ? NONE : this.#codes.get(device);
    if (device === undefined || before === NONE) return;
    this.#codes.delete(device);
    this.#devices.release(device);
    this.#count(before, -1);
  }

  /** Releases all devices in the shared index. */
  clear(): void {
    for (const id of this.ids()) this.delete(id);
  }

  /** Returns the same object until a count changes. */
  counts(): DeviceCounts {
    this.#counts ??= { total: this.#codes.size, byStatus: this.#byStatus() };
    return this.#counts;
  }

  #byStatus(): DeviceCounts['byStatus'] {
    const counted = STATUSES.map((status) => [status, this.#byCode[codeOf(status)] ?? 0] as const);
    return Object.fromEntries(counted.filter(([, count]) => count > 0));
  }

  #count(code: number, by: 1 | -1): void {
    this.#counts = undefined;
    if (code !== NONE) this.#byCode[code] = (this.#byCode[code] ?? 0) + by;
  }
}
