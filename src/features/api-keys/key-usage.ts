import { clock, type Timer } from '../../clock.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import { writeInParts } from '../../platform/db/bulk/write-in-parts.ts';
import type { Logger } from '../../platform/logger.ts';

const FLUSH_MS = 60_000;

interface Use {
  requests: number;
  at: Date;
}

/** Use of keys, written behind: one statement a minute at most, however many requests there were. */
export class KeyUsage {
  readonly #db: Db;
  readonly #log: Logger;
  readonly #flushMs: number;
  #pending = new Map<string, Use>();
  #timer: Timer | undefined;

  constructor(db: Db, log: Logger, flushMs = FLUSH_MS) {
    this.#db = db;
    this.#log = log;
    this.#flushMs = flushMs;
  }

  note(keyId: string, requests: number): void {
    const before = this.#pending.get(keyId)?.requests ?? 0;
    this.#pending.set(keyId, { requests: before + requests, at: clock.date() });
    this.#timer ??= clock.setTimeout(() => void this.#flush(), this.#flushMs).unref();
  }

  /** Writes now what is pending. */
  settle(): Promise<void> {
    return this.#flush();
  }

  async close(): Promise<void> {
    await this.#flush();
    clock.clear(this.#timer);
  }

  async #flush(): Promise<void> {
    clock.clear(this.#timer);
    this.#timer = undefined;
    const uses = [...this.#pending].sort(([a], [b]) => (a < b ? -1 : 1));
    this.#pending = new Map();
    if (uses.length === 0) return;
    const { refused, unwritten, failure } = await writeInParts(uses, (part) => this.#write(part));
    for (const { record, error } of refused) {
      this.#log.error({ err: error, keyId: record[0] }, 'api_keys.usage_refused');
    }
    if (failure === undefined) return;
    // The next flush writes them; what a key opens does not hang on it.
    this.#log.warn({ err: failure, keys: unwritten.length }, 'api_keys.usage_not_written');
    for (const [id, { requests, at }] of unwritten) {
      const since = this.#pending.get(id);
      this.#pending.set(id, { requests: requests + (since?.requests ?? 0), at: since?.at ?? at });
    }
  }

  async #write(uses: readonly [keyId: string, use: Use][]): Promise<void> {
    await withSystem(this.#db, 'write the use of many API keys', (tx) =>
      tx.raw(
        `update api_keys k set usage_count = k.usage_count + u.requests, last_used_at = greatest(k.last_used_at, u.at)
        from unnest(?::uuid[], ?::bigint[], ?::timestamptz[]) as u (id, requests, at) where k.id = u.id`,
        [
          uses.map(([id]) => id),
          uses.map(([, { requests }]) => String(requests)),
          uses.map(([, { at }]) => at.toISOString()),
        ],
      ),
    );
  }
}
