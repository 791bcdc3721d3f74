import type { DeviceSummary } from '../../protocol/index.ts';
import type { Logger } from '../../platform/logger.ts';
import type { DashboardFeed } from './dashboard-feed.ts';
import { type FleetDevice, summaryOf } from '../filters/fleet-device.ts';
import type { LiveFilters } from '../filters/live-filters.ts';
import type { DeviceStore, FleetStore } from '../ports.ts';

/** What is changed together is read together. */
const GATHER_MS = 250;
const READ_AT_ONCE = 1000;
/** When the database is asked again that did not answer. */
const AGAIN_MS = 2000;

interface Parts {
  store: Pick<DeviceStore, 'summariesOf'>;
  feed: DashboardFeed;
  /** Where somebody follows conditions, all of a device is read. */
  live?: { filters: LiveFilters; store: Pick<FleetStore, 'devices'> };
  /** The stored state of devices with what is known live laid over it. */
  refreshed: (devices: DeviceSummary[]) => DeviceSummary[];
  log: Logger;
}

/**
 * Devices whose record somebody has changed. Each node reads them anew, many in one query, and shows them to those of
 * its subscriptions that may see them: in one they change, in another they enter or leave. Where nobody watches, nothing
 * is read.
 */
export class ChangedDevices {
  readonly #parts: Parts;
  #waiting = new Set<string>();
  #reading = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  changed(deviceIds: readonly string[]): void {
    if (this.#parts.feed.size === 0 || this.#isClosed) return;
    for (const id of deviceIds) this.#waiting.add(id);
    this.#schedule(GATHER_MS);
  }

  /** The device was told to have entered or left. If it is being read right now, only another look says which is newer. */
  crossed(deviceId: string): void {
    if (this.#reading.has(deviceId)) this.changed([deviceId]);
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #schedule(ms: number): void {
    if (this.#reading.size > 0) return;
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      void this.#readSome();
    }, ms);
  }

  async #readSome(): Promise<void> {
    const { feed, refreshed, log } = this.#parts;
    if (feed.size === 0) return this.#waiting.clear();
    this.#reading = new Set([...this.#waiting].slice(0, READ_AT_ONCE));
    for (const id of this.#reading) this.#waiting.delete(id);
    let nextMs = GATHER_MS;
    try {
      const wanted = this.#wanted();
      const found = await this.#read([...this.#reading], wanted);
      if (isLessThan(wanted, this.#wanted())) {
        for (const id of this.#reading) this.#waiting.add(id);
      } else {
        const gone = new Set(this.#reading);
        for (const { device, partnerId, record } of found) {
          gone.delete(device.id);
          for (const live of refreshed([device])) feed.refreshed(live, partnerId, record);
        }
        for (const id of gone) feed.left(id);
      }
    } catch (error) {
      log.warn({ err: error, devices: this.#reading.size }, 'hub.changed_devices_not_read');
      for (const id of this.#reading) this.#waiting.add(id);
      nextMs = AGAIN_MS;
    }
    this.#reading = new Set();
    if (this.#waiting.size > 0 && !this.#isClosed) this.#schedule(nextMs);
  }

  #wanted(): Wanted {
    const { live } = this.#parts;
    if (live === undefined || live.filters.size === 0) return 'summaries';
    return live.filters.view.withSoftware ? 'all' : 'records';
  }

  async #read(deviceIds: readonly string[], wanted: Wanted): Promise<Found[]> {
    const { store, live } = this.#parts;
    if (live === undefined || wanted === 'summaries') return store.summariesOf(deviceIds);
    const records = await live.store.devices(deviceIds, { withSoftware: wanted === 'all' });
    return records.map((record) => ({ device: summaryOf(record), partnerId: record.partnerId, record }));
  }
}

interface Found {
  device: DeviceSummary;
  partnerId: string;
  record?: FleetDevice;
}

/** How much of a device those need who watch. */
type Wanted = (typeof WANTED)[number];
const WANTED = ['summaries', 'records', 'all'] as const;

/** Somebody who needs more may have come while it was read. */
const isLessThan = (read: Wanted, wanted: Wanted) => WANTED.indexOf(read) < WANTED.indexOf(wanted);
