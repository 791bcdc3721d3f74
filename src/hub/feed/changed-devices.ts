import { clock, type Timer } from '../../clock.ts';
import type { DeviceSummary } from '../../protocol/index.ts';
import type { Logger } from '../../platform/logger.ts';
import type { DashboardFeed } from './dashboard-feed.ts';
import { summaryOf } from '../filters/fleet-device.ts';
import type { DeviceStore, FleetDevice, FleetStore, StoredDevice } from '../ports.ts';
import type { LiveFilters } from '../filters/live-filters.ts';

/** Changes within this time are read together. */
const BATCH_MS = 250;
const DEVICES_PER_READ = 1000;
const RETRY_MS = 2000;

interface Parts {
  store: Pick<DeviceStore, 'summariesOf'>;
  feed: DashboardFeed;
  /** While there are live filters, whole records are read instead of summaries. */
  live?: { filters: LiveFilters; store: Pick<FleetStore, 'devices'> };
  /** Returns the latest state of a device that was read from the database. */
  latest: (stored: StoredDevice) => DeviceSummary;
  log: Logger;
}

/**
 * Reads devices again whose stored record has changed, many in one query, and updates the subscriptions of this node: a
 * device changes in one list and enters or leaves another. Without subscriptions nothing is read.
 */
export class ChangedDevices {
  readonly #parts: Parts;
  #waiting = new Set<string>();
  #reading = new Set<string>();
  #timer: Timer | undefined;
  /** The current or last read. */
  #readingSome: Promise<void> = Promise.resolve();
  #isFailing = false;
  #isClosed = false;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  changed(deviceIds: readonly string[]): void {
    if (this.#parts.feed.size === 0 || this.#isClosed) return;
    for (const id of deviceIds) this.#waiting.add(id);
    this.#schedule(BATCH_MS);
  }

  /** A device has entered or left. If it is being read now, only another read shows which of the two is newer. */
  recheckIfReading(deviceId: string): void {
    if (this.#reading.has(deviceId)) this.changed([deviceId]);
  }

  /** Reads now what waits for the next read. It goes on waiting while the database is unavailable. */
  async settle(): Promise<void> {
    do {
      await this.#readingSome;
      clock.clear(this.#timer);
      this.#timer = undefined;
      if (this.#waiting.size > 0) this.#readingSome = this.#readSome();
      await this.#readingSome;
    } while (this.#waiting.size > 0 && !this.#isFailing && !this.#isClosed);
  }

  close(): void {
    this.#isClosed = true;
    clock.clear(this.#timer);
  }

  #schedule(ms: number): void {
    if (this.#reading.size > 0) return;
    this.#timer ??= clock.setTimeout(() => {
      this.#timer = undefined;
      this.#readingSome = this.#readSome();
    }, ms);
  }

  async #readSome(): Promise<void> {
    const { feed, latest, log } = this.#parts;
    if (feed.size === 0) return this.#waiting.clear();
    this.#reading = new Set([...this.#waiting].slice(0, DEVICES_PER_READ));
    for (const id of this.#reading) this.#waiting.delete(id);
    let nextMs = BATCH_MS;
    this.#isFailing = false;
    try {
      const detail = this.#neededDetail();
      const found = await this.#read([...this.#reading], detail);
      if (isLessThan(detail, this.#neededDetail())) {
        for (const id of this.#reading) this.#waiting.add(id);
      } else {
        const gone = new Set(this.#reading);
        for (const { partnerId, record, ...stored } of found) {
          gone.delete(stored.device.id);
          feed.refreshed(latest(stored), partnerId, record);
        }
        for (const id of gone) feed.left(id);
      }
    } catch (error) {
      log.warn({ err: error, devices: this.#reading.size }, 'hub.changed_devices_not_read');
      for (const id of this.#reading) this.#waiting.add(id);
      nextMs = RETRY_MS;
      this.#isFailing = true;
    }
    this.#reading = new Set();
    if (this.#waiting.size > 0 && !this.#isClosed) this.#schedule(nextMs);
  }

  #neededDetail(): Detail {
    const { live } = this.#parts;
    if (live === undefined || live.filters.size === 0) return 'summaries';
    return live.filters.view.withSoftware ? 'all' : 'records';
  }

  async #read(deviceIds: readonly string[], detail: Detail): Promise<Found[]> {
    const { store, live } = this.#parts;
    if (live === undefined || detail === 'summaries') return store.summariesOf(deviceIds);
    const records = await live.store.devices(deviceIds, { withSoftware: detail === 'all' });
    return records.map((record) => ({
      device: summaryOf(record),
      epoch: record.presenceEpoch,
      partnerId: record.partnerId,
      record,
    }));
  }
}

interface Found extends StoredDevice {
  partnerId: string;
  record?: FleetDevice;
}

/** How much of a device the subscriptions need. `all` includes installed software. */
type Detail = (typeof DETAILS)[number];
const DETAILS = ['summaries', 'records', 'all'] as const;

/** A subscription that needs more may have come while the devices were read. */
const isLessThan = (read: Detail, needed: Detail) => DETAILS.indexOf(read) < DETAILS.indexOf(needed);
