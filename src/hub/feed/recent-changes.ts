import type { DeviceSummary } from '../../protocol/index.ts';
import { DeviceChange } from '../subscriptions/device-change.ts';

/** Longer than presence takes to be written. */
const KEPT_MS = 2000;

/**
 * What was told of devices within the last seconds. The database is written behind, on whichever node holds the device:
 * what is read there may be older than what was shown.
 */
export class RecentChanges {
  #latest = new Map<string, DeviceChange>();
  #before = new Map<string, DeviceChange>();
  #since = performance.now();

  note(change: DeviceChange): void {
    this.#turn();
    const { deviceId, patch } = change;
    const earlier = this.#latest.get(deviceId);
    // A change of its own: the one that is shown keeps what was printed of it.
    this.#latest.set(
      deviceId,
      earlier === undefined ? new DeviceChange(deviceId, patch) : change.after(earlier),
    );
  }

  /** Whether anything was noted of the device. */
  has(deviceId: string): boolean {
    this.#turn();
    return this.#latest.has(deviceId) || this.#before.has(deviceId);
  }

  /** The device as it was read, with what was told since. */
  over(device: DeviceSummary): DeviceSummary {
    this.#turn();
    const before = this.#before.get(device.id)?.over(device) ?? device;
    return this.#latest.get(device.id)?.over(before) ?? before;
  }

  #turn(): void {
    const age = performance.now() - this.#since;
    if (age < KEPT_MS) return;
    this.#before = age < 2 * KEPT_MS ? this.#latest : new Map();
    this.#latest = new Map();
    this.#since = performance.now();
  }
}
