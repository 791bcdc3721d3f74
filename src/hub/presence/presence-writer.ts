import { clock, type Timer } from '../../clock.ts';
import { writeInParts } from '../../platform/db/write-in-parts.ts';
import type { Logger } from '../../platform/logger.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import type { DeviceStore, DeviceFacts, PresenceRecord, ReportRecord } from '../ports.ts';

/** The most addresses of one device between two writes. */
const ADDRESSES_MAX = 20;

/** By device, the addresses of presence records that were replaced before they were written. */
export class UnwrittenAddresses extends Map<string, string[]> {
  /** A record of the device has replaced one that was not written. */
  replaced(deviceId: string, earlier: string | null, later: string | null): void {
    if (earlier === null || later === null || earlier === later) return;
    const known = this.get(deviceId);
    if (known === undefined) this.set(deviceId, [earlier]);
    else if (known.length < ADDRESSES_MAX) known.push(earlier);
  }

  /** Adds addresses of a failed write before those that have come since. */
  putBack(deviceId: string, addresses: readonly string[]): void {
    this.set(deviceId, [...addresses, ...(this.get(deviceId) ?? [])].slice(0, ADDRESSES_MAX));
  }
}

const FLUSH_MS = 500;
const BATCH = 1000;
/** The next batch is prepared while the database writes one. */
const BATCHES_AT_ONCE = 2;
/**
 * The writes of a flush are spread over most of the time until the next one. All at once they would delay other work of
 * this process and the database by several milliseconds.
 */
const SPREAD_MS = 400;
const SPREAD_BATCHES = 10;
/** Batches are not divided below this size. */
const SMALL_BATCH = 100;

/** Until then the nodes remember what was shown, and place it over what they read from the database. */
const LATE_MS = 2000;

interface PresenceHandlers {
  /** Called with devices whose stored record has changed. */
  onChanged?: (deviceIds: readonly string[]) => void;
  /** Called if the database has refused single records. */
  onRefused?: (count: number) => void;
  /** Called when everything was written after a failure. */
  onRecovered?: () => void;
  /** Called with devices whose host name has to be reported again. */
  onPostponed?: (deviceIds: readonly string[]) => void;
  /** Called with disconnections that were written late. Nodes may have read meanwhile that the devices are connected. */
  onLate?: (disconnected: readonly PresenceRecord[]) => void;
}

/**
 * Writes presence, reports and facts in batches, the latest of each device. They are kept while the database is
 * unavailable.
 */
export class PresenceWriter {
  readonly #store: DeviceStore;
  readonly #log: Logger;
  readonly #handlers: PresenceHandlers;
  #presence = new Map<string, PresenceRecord>();
  #reports = new Map<string, ReportRecord>();
  #facts = new Map<string, DeviceFacts>();
  #addresses = { presence: new UnwrittenAddresses(), reports: new UnwrittenAddresses() };
  #timer: Timer | undefined;
  #flushing: Promise<void> | undefined;
  #failing = false;
  #isClosing = false;
  /** When the oldest record came that is not written yet. */
  #waitingSince: number | undefined;
  /** When the oldest record came of those that are being written. */
  #writingSince: number | undefined;
  /** A caller waits for the flush, so its writes are not spread over time. */
  #isHurried = false;

  constructor(store: DeviceStore, log: Logger, handlers: PresenceHandlers = {}) {
    this.#store = store;
    this.#log = log;
    this.#handlers = handlers;
  }

  get pending(): number {
    return this.#presence.size + this.#reports.size + this.#facts.size;
  }

  /** How long the oldest record has been waiting to be written, in milliseconds. */
  get lateMs(): number {
    const since = this.#writingSince ?? this.#waitingSince;
    return since === undefined ? 0 : clock.monotonic() - since;
  }

  /** @param record  read when it is written, so that later changes in it are written as well */
  presence(record: PresenceRecord): void {
    const waiting = this.#presence.get(record.deviceId);
    if (waiting !== undefined && waiting.epoch > record.epoch) return;
    if (waiting !== record) {
      if (waiting !== undefined) {
        this.#addresses.presence.replaced(record.deviceId, waiting.lastIp, record.lastIp);
      }
      this.#presence.set(record.deviceId, record);
    }
    if (record.presence.state === 'connected' && this.#reports.size > 0) this.#endReport(record);
    this.#schedule();
  }

  /** A connection replaces an earlier report. */
  #endReport({ deviceId, lastIp }: PresenceRecord): void {
    const report = this.#reports.get(deviceId);
    if (report === undefined) return;
    this.#reports.delete(deviceId);
    const { presence, reports } = this.#addresses;
    for (const address of reports.get(deviceId) ?? []) presence.replaced(deviceId, address, report.lastIp);
    reports.delete(deviceId);
    presence.replaced(deviceId, report.lastIp, lastIp);
  }

  report(record: ReportRecord): void {
    const waiting = this.#reports.get(record.deviceId);
    if (waiting !== undefined) {
      this.#addresses.reports.replaced(record.deviceId, waiting.lastIp, record.lastIp);
    }
    this.#reports.set(record.deviceId, record);
    this.#schedule();
  }

  facts(facts: DeviceFacts): void {
    const waiting = this.#facts.get(facts.deviceId);
    this.#facts.set(facts.deviceId, waiting === undefined ? facts : over(waiting, facts));
    this.#schedule();
  }

  /** Writes now what waits. It goes on waiting while the database is unavailable. */
  async settle(): Promise<void> {
    this.#isHurried = true;
    await this.#flushing;
    clock.clear(this.#timer);
    this.#timer = undefined;
    await this.#begin();
    this.#isHurried = false;
  }

  /** Writes the remaining records after a flush that is under way. Nothing new may come. */
  async close(): Promise<void> {
    this.#isClosing = true;
    clock.clear(this.#timer);
    this.#timer = undefined;
    await this.#flushing;
    await this.#flush();
    clock.clear(this.#timer);
  }

  #schedule(): void {
    this.#waitingSince ??= clock.monotonic();
    this.#timer ??= clock.setTimeout(() => {
      this.#timer = undefined;
      void this.#begin();
    }, FLUSH_MS);
  }

  #begin(): Promise<void> {
    this.#flushing ??= this.#flush().finally(() => {
      this.#flushing = undefined;
      if (this.pending > 0) this.#schedule();
    });
    return this.#flushing;
  }

  async #flush(): Promise<void> {
    const presence = this.#presence;
    const reports = this.#reports;
    const facts = this.#facts;
    const addresses = this.#addresses;
    this.#addresses = { presence: new UnwrittenAddresses(), reports: new UnwrittenAddresses() };
    this.#presence = new Map();
    this.#reports = new Map();
    this.#facts = new Map();
    const begunAt = clock.monotonic();
    this.#writingSince = this.#waitingSince;
    this.#waitingSince = undefined;
    try {
      // Facts go first, so that a device is not shown as connected before its capabilities are known.
      await this.#inBatches(begunAt, facts, async (batch) => {
        const changed = await this.#store.recordFacts(batch, (ids) => this.#handlers.onPostponed?.(ids));
        if (changed.length > 0) this.#handlers.onChanged?.(changed);
      });
      await this.#inBatches(begunAt, presence, async (batch) => {
        await this.#store.recordPresence(batch, addresses.presence);
        if (addresses.presence.size > 0) batch.forEach(({ deviceId }) => addresses.presence.delete(deviceId));
        if (this.lateMs >= LATE_MS) this.#late(batch);
      });
      // Reports follow presence: a waiting report is newer than the connection before it.
      await this.#inBatches(begunAt, reports, async (batch) => {
        await this.#store.recordReports(batch, addresses.reports);
        if (addresses.reports.size > 0) for (const { deviceId } of batch) addresses.reports.delete(deviceId);
      });
      this.#writingSince = undefined;
      const hasRecovered = this.#failing;
      this.#failing = false;
      if (hasRecovered) {
        this.#log.info('hub.presence_written_again');
        this.#handlers.onRecovered?.();
      }
    } catch (error) {
      this.#waitingSince = this.#writingSince ?? this.#waitingSince;
      this.#writingSince = undefined;
      // Agents are answered from memory, so nothing is lost while the database is unavailable. Newer records stay.
      for (const [id, record] of presence) {
        const newer = this.#presence.get(id);
        if (newer === undefined || newer.epoch < record.epoch) this.#presence.set(id, record);
        else if (newer.lastIp !== record.lastIp && record.lastIp !== null) {
          this.#addresses.presence.putBack(id, [record.lastIp]);
        }
      }
      for (const [id, record] of reports) {
        const isConnected = this.#presence.get(id)?.presence.state === 'connected' && !presence.has(id);
        if (!isConnected && !this.#reports.has(id)) this.#reports.set(id, record);
      }
      for (const [id, earlier] of addresses.presence) this.#addresses.presence.putBack(id, earlier);
      for (const [id, earlier] of addresses.reports) this.#addresses.reports.putBack(id, earlier);
      for (const [id, record] of facts) {
        const newer = this.#facts.get(id);
        this.#facts.set(id, newer === undefined ? record : over(record, newer));
      }
      if (!this.#failing) this.#log.warn({ err: error, waiting: this.pending }, 'hub.presence_not_written');
      this.#failing = true;
    }
  }

  /** The next heartbeat of a device that is connected shows so again. */
  #late(batch: readonly PresenceRecord[]): void {
    const disconnected = batch.filter(({ presence }) => presence.state === 'disconnected');
    if (disconnected.length > 0) this.#handlers.onLate?.(disconnected);
  }

  /**
   * Rejects only after every started batch has ended, so that no device is in two of them.
   * @param records  by device; records that the database refuses are removed, so that they are not tried again
   */
  async #inBatches<T extends { deviceId: string }>(
    begunAt: number,
    records: Map<string, T>,
    write: (batch: readonly T[]) => Promise<void>,
  ): Promise<void> {
    const items = [...records.values()];
    const size = Math.min(BATCH, Math.max(SMALL_BATCH, Math.ceil(items.length / SPREAD_BATCHES)));
    const apartMs = SPREAD_MS / Math.ceil(items.length / size);
    let next = 0;
    const lane = async () => {
      while (next < items.length) {
        const start = next;
        next += size;
        const early = begunAt + (start / size) * apartMs - clock.monotonic();
        if (early >= 1 && !this.#isClosing && !this.#isHurried) await clock.sleep(early);
        const { refused, failure } = await writeInParts(items.slice(start, start + size), write);
        for (const { record, error } of refused) {
          records.delete(record.deviceId);
          this.#log.error({ err: error, deviceId: record.deviceId }, 'hub.presence_refused');
        }
        if (refused.length > 0) this.#handlers.onRefused?.(refused.length);
        if (failure !== undefined) throw failure;
      }
    };
    const ended = await Promise.allSettled(Array.from({ length: BATCHES_AT_ONCE }, lane));
    for (const lane of ended) if (lane.status === 'rejected') throw lane.reason;
  }
}

/**
 * Fields that the later report leaves out keep the value of the earlier one, as it would if they were written one by
 * one.
 */
function over(earlier: DeviceFacts, later: DeviceFacts): DeviceFacts {
  return { ...earlier, ...omitUndefined(later) };
}
