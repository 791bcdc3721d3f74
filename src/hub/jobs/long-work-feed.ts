import { clock, type Timer } from '../../clock.ts';
import type { Logger } from '../../platform/logger.ts';
import { type LongWork, LongWorkNotice } from '../ports/long-work.ts';
import type { JobAudience } from './job-audience.ts';

/** Changes within this time are read together, so each piece of work is sent at most four times a second. */
const COLLECT_MS = 250;
const RETRY_MS = 1000;
const READ_AT_ONCE = 500;
/** The clocks of the server and the database may differ by so much. */
const CLOCKS_DIFFER_MS = 60_000;

interface Parts {
  work: LongWork;
  audience: JobAudience;
  log: Logger;
}

/**
 * Shows long work to the clients of this node. The database announces to every node which rows have changed; a node reads
 * them only while somebody follows jobs on it.
 */
export class LongWorkFeed {
  readonly #parts: Parts;
  readonly #changed = new Map<string, Set<string>>();
  #timer: Timer | undefined;
  #reading: Promise<void> = Promise.resolve();
  #toldAt = clock.now();
  #isClosed = false;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** @param payloads  as the database announces them */
  notified(payloads: readonly string[]): void {
    this.#toldAt = clock.now();
    if (this.#parts.audience.size === 0) return;
    for (const payload of payloads) {
      const notice = readNotice(payload);
      if (notice === undefined) this.#parts.log.warn({}, 'hub.long_work_notice_refused');
      else this.#note(notice);
    }
    this.#schedule(COLLECT_MS);
  }

  /** Announcements may have been missed. */
  mayHaveMissed(): void {
    const { audience, work, log } = this.#parts;
    if (audience.size === 0) return;
    const since = new Date(this.#toldAt - CLOCKS_DIFFER_MS);
    this.#reading = this.#reading.then(async () => {
      try {
        for (const change of await work.since(since)) audience.changed(change);
      } catch (error) {
        log.warn({ err: error }, 'hub.long_work_not_read');
      }
    });
  }

  /** Reads now what was announced. */
  async settle(): Promise<void> {
    await this.#reading;
    clock.clear(this.#timer);
    this.#timer = undefined;
    this.#reading = this.#readChanged();
    await this.#reading;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clock.clear(this.#timer);
    await this.#reading;
  }

  #note({ kind, ids }: LongWorkNotice): void {
    const changed = this.#changed.get(kind) ?? new Set();
    this.#changed.set(kind, changed);
    for (const id of ids) changed.add(id);
  }

  #schedule(ms: number): void {
    if (this.#isClosed || this.#changed.size === 0) return;
    this.#timer ??= clock.setTimeout(() => {
      this.#reading = this.#reading.then(() => this.#readChanged()).finally(() => (this.#timer = undefined));
      // What is announced while this reads is read after it.
      void this.#reading.then(() => this.#schedule(COLLECT_MS));
    }, ms);
  }

  async #readChanged(): Promise<void> {
    const { work, audience, log } = this.#parts;
    const notices = [...this.#changed].flatMap(([kind, ids]) =>
      pages([...ids]).map((ids) => ({ kind, ids })),
    );
    this.#changed.clear();
    for (const notice of notices) {
      if (this.#isClosed || audience.size === 0) return;
      try {
        for (const change of await work.read(notice)) audience.changed(change);
      } catch (error) {
        log.warn({ err: error, kind: notice.kind }, 'hub.long_work_not_read');
        this.#note(notice);
        await clock.sleep(RETRY_MS);
      }
    }
  }
}

function pages(ids: readonly string[]): string[][] {
  return Array.from({ length: Math.ceil(ids.length / READ_AT_ONCE) }, (_none, at) =>
    ids.slice(at * READ_AT_ONCE, (at + 1) * READ_AT_ONCE),
  );
}

function readNotice(payload: string): LongWorkNotice | undefined {
  try {
    return LongWorkNotice.safeParse(JSON.parse(payload)).data;
  } catch {
    return undefined;
  }
}
