import type { DeviceCounts, DeviceStatus } from '../protocol/index.ts';

/** The status of each device that a subscriber was shown, and how many have which: counted as they change. */
export class StatusTally {
  readonly #statuses = new Map<string, DeviceStatus>();
  readonly #byStatus: Partial<Record<DeviceStatus, number>> = {};

  has(deviceId: string): boolean {
    return this.#statuses.has(deviceId);
  }

  get(deviceId: string): DeviceStatus | undefined {
    return this.#statuses.get(deviceId);
  }

  ids(): IterableIterator<string> {
    return this.#statuses.keys();
  }

  set(deviceId: string, status: DeviceStatus): void {
    const before = this.#statuses.get(deviceId);
    if (before === status) return;
    if (before !== undefined) this.#countDown(before);
    this.#statuses.set(deviceId, status);
    this.#byStatus[status] = (this.#byStatus[status] ?? 0) + 1;
  }

  delete(deviceId: string): void {
    const before = this.#statuses.get(deviceId);
    if (before === undefined) return;
    this.#statuses.delete(deviceId);
    this.#countDown(before);
  }

  counts(): DeviceCounts {
    return { total: this.#statuses.size, byStatus: { ...this.#byStatus } };
  }

  #countDown(status: DeviceStatus): void {
    const left = (this.#byStatus[status] ?? 0) - 1;
    if (left > 0) this.#byStatus[status] = left;
    else delete this.#byStatus[status];
  }
}
