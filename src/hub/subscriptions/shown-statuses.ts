import { type DeviceCounts, DeviceStatus } from '../../protocol/index.ts';
import { CodeTable, NONE } from './compact-byte-map.ts';
import { DeviceNumbers } from './ref-counted-device-index.ts';

/** Those of all tallies of the process. */
const NUMBERS = new DeviceNumbers();

const STATUSES = DeviceStatus.options;
const codeOf = (status: DeviceStatus) => STATUSES.indexOf(status) + 1;

/**
 * The status of each device that a subscriber was shown, and how many have which: counted as they change. A thousand
 * dashboards may be shown the same ten thousand devices, each of which is looked up for each of them when it changes:
 * hence numbers in a table and not their ids.
 */
export class StatusTally {
  readonly #devices: DeviceNumbers;
  readonly #codes = new CodeTable();
  readonly #byCode = new Uint32Array(STATUSES.length + 1);
  #counts: DeviceCounts | undefined;

  constructor(devices = NUMBERS) {
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
    const device = known === undefined || before === NONE ? this.#devices.hold(deviceId) : known;
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

  /** Lets go of all devices. */
  clear(): void {
    for (const id of this.ids()) this.delete(id);
  }

  /** The same object until a device changes what it says. */
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
