import { type DeviceCounts, DeviceStatus } from '../../protocol/index.ts';
import { CompactByteMap, NONE } from './compact-byte-map.ts';
import { RefCountedDeviceIndex } from './ref-counted-device-index.ts';

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
