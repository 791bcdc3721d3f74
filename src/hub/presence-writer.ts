import type { Logger } from '../platform/logger.ts';
import type { DeviceFacts, DeviceStore, PresenceRecord } from './ports.ts';

const FLUSH_MS = 500;
const BATCH = 1000;

/** Writes presence and facts behind the actors: the latest of each device, in batches, kept while the database is away. */
export class PresenceWriter {
  readonly #store: DeviceStore;
  readonly #log: Logger;
  #presence = new Map<string, PresenceRecord>();
  #facts = new Map<string, DeviceFacts>();
  #timer: NodeJS.Timeout | undefined;
  #flushing: Promise<void> | undefined;
  #failing = false;

  constructor(store: DeviceStore, log: Logger) {
    this.#store = store;
    this.#log = log;
  }

  get pending(): number {
    return this.#presence.size + this.#facts.size;
  }

  presence(record: PresenceRecord): void {
    const waiting = this.#presence.get(record.deviceId);
    if (waiting !== undefined && waiting.epoch > record.epoch) return;
    this.#presence.set(record.deviceId, record);
    this.#schedule();
  }

  facts(facts: DeviceFacts): void {
    this.#facts.set(facts.deviceId, facts);
    this.#schedule();
  }

  /** Writes all that waits now. Used at the end, when nothing new comes. */
  async close(): Promise<void> {
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
    const facts = this.#facts;
    this.#presence = new Map();
    this.#facts = new Map();
    try {
      for (const batch of inBatches([...presence.values()])) await this.#store.recordPresence(batch);
      for (const batch of inBatches([...facts.values()])) await this.#store.recordFacts(batch);
      if (this.#failing) this.#log.info('hub.presence_written_again');
      this.#failing = false;
    } catch (error) {
      // Agents are answered from memory, so nothing is lost while the database is away: what is newer stays.
      for (const [id, record] of presence) {
        const newer = this.#presence.get(id);
        if (newer === undefined || newer.epoch < record.epoch) this.#presence.set(id, record);
      }
      for (const [id, record] of facts) if (!this.#facts.has(id)) this.#facts.set(id, record);
      if (!this.#failing) this.#log.warn({ err: error, waiting: this.pending }, 'hub.presence_not_written');
      this.#failing = true;
    }
  }
}

function inBatches<T>(items: T[]): T[][] {
  const batches: T[][] = [];
  for (let start = 0; start < items.length; start += BATCH) batches.push(items.slice(start, start + BATCH));
  return batches;
}
