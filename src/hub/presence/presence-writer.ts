import { writeInParts } from '../../platform/db/bulk/write-in-parts.ts';
import type { Logger } from '../../platform/logger.ts';
import { PassedAddresses } from './address-history.ts';
import type { DeviceFacts, DeviceStore, PresenceRecord, ReportRecord } from '../ports.ts';

const FLUSH_MS = 500;
const BATCH = 1000;
/** While the database writes one batch, the next is made ready. */
const BATCHES_AT_ONCE = 2;
/**
 * What a flush writes is spread over most of the time until the next: written in one go, it would hold up for some
 * milliseconds whatever else this process and the database are asked meanwhile.
 */
const SPREAD_MS = 400;
const SPREAD_BATCHES = 10;
/** So many devices are not taken apart. */
const SMALL_BATCH = 100;

/** Writes presence, reports and facts behind whoever took them in: the latest of each device, in batches, kept while the database is away. */
export class PresenceWriter {
  readonly #store: DeviceStore;
  readonly #log: Logger;
  readonly #onChanged: (deviceIds: readonly string[]) => void;
  readonly #onRefused: (count: number) => void;
  readonly #onRecovered: () => void;
  #presence = new Map<string, PresenceRecord>();
  #reports = new Map<string, ReportRecord>();
  #facts = new Map<string, DeviceFacts>();
  #passed = { presence: new PassedAddresses(), reports: new PassedAddresses() };
  #timer: NodeJS.Timeout | undefined;
  #flushing: Promise<void> | undefined;
  #failing = false;
  #isClosing = false;

  /**
   * @param onChanged    devices whose record says something else since
   * @param onRefused    called when the database has refused single records
   * @param onRecovered  what could not be written for a while has been written
   */
  constructor(
    store: DeviceStore,
    log: Logger,
    onChanged: (deviceIds: readonly string[]) => void = () => {},
    onRefused: (count: number) => void = () => {},
    onRecovered: () => void = () => {},
  ) {
    this.#store = store;
    this.#log = log;
    this.#onChanged = onChanged;
    this.#onRefused = onRefused;
    this.#onRecovered = onRecovered;
  }

  get pending(): number {
    return this.#presence.size + this.#reports.size + this.#facts.size;
  }

  /** @param record  read when it is written: what changes in it until then needs no record of its own */
  presence(record: PresenceRecord): void {
    const waiting = this.#presence.get(record.deviceId);
    if (waiting !== undefined && waiting.epoch > record.epoch) return;
    if (waiting !== record) {
      if (waiting !== undefined) {
        this.#passed.presence.replaced(record.deviceId, waiting.lastIp, record.lastIp);
      }
      this.#presence.set(record.deviceId, record);
    }
    if (record.presence.state === 'connected' && this.#reports.size > 0) this.#endReport(record);
    this.#schedule();
  }

  /** A connection ends what was reported before it. */
  #endReport({ deviceId, lastIp }: PresenceRecord): void {
    const report = this.#reports.get(deviceId);
    if (report === undefined) return;
    this.#reports.delete(deviceId);
    const { presence, reports } = this.#passed;
    for (const address of reports.get(deviceId) ?? []) presence.replaced(deviceId, address, report.lastIp);
    reports.delete(deviceId);
    presence.replaced(deviceId, report.lastIp, lastIp);
  }

  report(record: ReportRecord): void {
    const waiting = this.#reports.get(record.deviceId);
    if (waiting !== undefined) {
      this.#passed.reports.replaced(record.deviceId, waiting.lastIp, record.lastIp);
    }
    this.#reports.set(record.deviceId, record);
    this.#schedule();
  }

  facts(facts: DeviceFacts): void {
    this.#facts.set(facts.deviceId, over(this.#facts.get(facts.deviceId), facts));
    this.#schedule();
  }

  /** Writes all that waits now, behind those batches whose turn is awaited already. Used at the end, when nothing new comes. */
  async close(): Promise<void> {
    this.#isClosing = true;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    await this.#flushing;
    await this.#flush();
    clearTimeout(this.#timer);
  }

  #schedule(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#flushing ??= this.#flush().finally(() => {
        this.#flushing = undefined;
        if (this.pending > 0) this.#schedule();
      });
    }, FLUSH_MS);
  }

  async #flush(): Promise<void> {
    const presence = this.#presence;
    const reports = this.#reports;
    const facts = this.#facts;
    const passed = this.#passed;
    this.#passed = { presence: new PassedAddresses(), reports: new PassedAddresses() };
    this.#presence = new Map();
    this.#reports = new Map();
    this.#facts = new Map();
    const begunAt = performance.now();
    try {
      // First of all: that a device has connected is not known before what it can do.
      await this.#inBatches(begunAt, facts, async (batch) => {
        const changed = await this.#store.recordFacts(batch);
        if (changed.length > 0) this.#onChanged(changed);
      });
      await this.#inBatches(begunAt, presence, async (batch) => {
        await this.#store.recordPresence(batch, passed.presence);
        if (passed.presence.size > 0) for (const { deviceId } of batch) passed.presence.delete(deviceId);
      });
      // Behind presence: a report that still waits is newer than the connection before it.
      await this.#inBatches(begunAt, reports, async (batch) => {
        await this.#store.recordReports(batch, passed.reports);
        if (passed.reports.size > 0) for (const { deviceId } of batch) passed.reports.delete(deviceId);
      });
      const hasRecovered = this.#failing;
      this.#failing = false;
      if (hasRecovered) {
        this.#log.info('hub.presence_written_again');
        this.#onRecovered();
      }
    } catch (error) {
      // Agents are answered from memory, so nothing is lost while the database is away: what is newer stays.
      for (const [id, record] of presence) {
        const newer = this.#presence.get(id);
        if (newer === undefined || newer.epoch < record.epoch) this.#presence.set(id, record);
        else if (newer.lastIp !== record.lastIp && record.lastIp !== null) {
          this.#passed.presence.putBack(id, [record.lastIp]);
        }
      }
      for (const [id, record] of reports) {
        const isConnected = this.#presence.get(id)?.presence.state === 'connected' && !presence.has(id);
        if (!isConnected && !this.#reports.has(id)) this.#reports.set(id, record);
      }
      for (const [id, addresses] of passed.presence) this.#passed.presence.putBack(id, addresses);
      for (const [id, addresses] of passed.reports) this.#passed.reports.putBack(id, addresses);
      for (const [id, record] of facts) this.#facts.set(id, over(record, this.#facts.get(id) ?? record));
      if (!this.#failing) this.#log.warn({ err: error, waiting: this.pending }, 'hub.presence_not_written');
      this.#failing = true;
    }
  }

  /**
   * Rejects when every batch that was begun has ended. No device is in two of them.
   * @param records  by device; those that the database refuses are taken out, so that they are not tried again
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
        const early = begunAt + (start / size) * apartMs - performance.now();
        if (early >= 1 && !this.#isClosing) await new Promise((resolve) => setTimeout(resolve, early));
        const { refused, failure } = await writeInParts(items.slice(start, start + size), write);
        for (const { record, error } of refused) {
          records.delete(record.deviceId);
          this.#log.error({ err: error, deviceId: record.deviceId }, 'hub.presence_refused');
        }
        if (refused.length > 0) this.#onRefused(refused.length);
        if (failure !== undefined) throw failure;
      }
    };
    const ended = await Promise.allSettled(Array.from({ length: BATCHES_AT_ONCE }, lane));
    for (const lane of ended) if (lane.status === 'rejected') throw lane.reason;
  }
}

/** A report without a handshake does not say what the agent is able to do, and must not make that forgotten. */
function over(earlier: DeviceFacts | undefined, later: DeviceFacts): DeviceFacts {
  return { ...later, capabilities: later.capabilities ?? earlier?.capabilities };
}
