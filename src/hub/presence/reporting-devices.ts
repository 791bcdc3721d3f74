import type { MachineFacts } from '../device/heartbeat.ts';
import type { HeldOffer } from '../upgrades/held-offer.ts';

export interface Reporting {
  /** By `clock.monotonic()`, because the clock of the machine may be set. */
  until: number;
  lastSeenAt: number;
  /** The facts that were written last, and what the device was offered under them. Unknown for devices of an earlier run. */
  known: { facts: MachineFacts; offer: HeldOffer } | undefined;
}

/** The devices that currently report over HTTP instead of a connection. */
export class ReportingDevices {
  readonly #devices = new Map<string, Reporting>();

  get size(): number {
    return this.#devices.size;
  }

  get(deviceId: string): Reporting | undefined {
    return this.#devices.get(deviceId);
  }

  set(deviceId: string, reporting: Reporting): void {
    this.#devices.set(deviceId, reporting);
  }

  delete(deviceId: string): void {
    this.#devices.delete(deviceId);
  }

  /** When the device last reported, or `undefined` when it does not report over HTTP. */
  lastSeenAt(deviceId: string): number | undefined {
    return this.#devices.get(deviceId)?.lastSeenAt;
  }

  expired(now: number): string[] {
    return [...this.#devices].filter(([, { until }]) => until <= now).map(([deviceId]) => deviceId);
  }
}
