import { clock } from '../../clock.ts';
import type { DeviceSummary } from '../../protocol/index.ts';
import { DeviceChange } from '../subscriptions/device-change.ts';

/** Longer than it takes to write presence. */
const KEPT_MS = 2000;

/**
 * The changes of devices within the last seconds. The owning node writes presence with a delay, so what is read from the
 * database may be older than what was shown.
 */
export class RecentChanges {
  #latest = new Map<string, DeviceChange>();
  #previous = new Map<string, DeviceChange>();
  #since = clock.monotonic();

  note(change: DeviceChange): void {
    this.#rotate();
    const { deviceId, patch } = change;
    const earlier = this.#latest.get(deviceId);
    // A copy: the original keeps its serialized form as long as it lives.
    this.#latest.set(
      deviceId,
      earlier === undefined ? new DeviceChange(deviceId, patch) : change.after(earlier),
    );
  }

  /** Whether there is a recent change of the device. */
  has(deviceId: string): boolean {
    this.#rotate();
    return this.#latest.has(deviceId) || this.#previous.has(deviceId);
  }

  /** Applies the recent changes to a device that was read from the database. */
  over(device: DeviceSummary): DeviceSummary {
    this.#rotate();
    const before = this.#previous.get(device.id)?.over(device) ?? device;
    return this.#latest.get(device.id)?.over(before) ?? before;
  }

  #rotate(): void {
    const age = clock.monotonic() - this.#since;
    if (age < KEPT_MS) return;
    this.#previous = age < 2 * KEPT_MS ? this.#latest : new Map();
    this.#latest = new Map();
    this.#since = clock.monotonic();
  }
}
