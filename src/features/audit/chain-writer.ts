import { clock, type Timer } from '../../clock.ts';
import { isDatabaseAway } from '../../platform/db/database-errors.ts';
import type { Db } from '../../platform/db/pool.ts';
import type { Logger } from '../../platform/logger.ts';
import { NameIndexCache, type NamedEntry, insertActorsSql, insertResourcesSql } from './name-index.ts';
import { LOCK_NAMES_SHARED } from './name-index.queries.ts';
import { type Batch, type BatchChoice, sealBatch, waitingChains } from './chain-writer.queries.ts';
import type { SigningKeys } from './signing-keys.ts';

import { withSystem, type Tx, runPrepared } from '../../platform/db/transaction.ts';

const NEXT_BATCH = {
  name: 'audit-names-ahead',
  text: `
    select org_id as "orgId", partner_id as "partnerId", actor_type as "actorType", actor_id as "actorId",
      actor_email as "actorEmail", resource_type as "resourceType", resource_name as "resourceName"
    from audit_outbox where not chain_id = any($2::uuid[]) order by position offset $1::int limit $1::int`,
};

export interface ChainWriterOptions {
  db: Db;
  keys: SigningKeys;
  log: Logger;
  /** Called for each entry with the time from the audited action to its sealing. */
  onSealed?: (lagSeconds: number) => void;
  timing?: Partial<ChainWriterTiming>;
}

export interface ChainWriterTiming {
  batch: number;
  /** How long to wait for more entries before sealing a batch. */
  collectMs: number;
  /** How often to look for entries without a wake-up, such as those of a server that died before sealing them. */
  sweepMs: number;
  retryMs: number;
  retryMaxMs: number;
}

const TIMING: ChainWriterTiming = {
  batch: 500,
  collectMs: 100,
  sweepMs: 5000,
  retryMs: 500,
  retryMaxMs: 60_000,
};

/** When a chain that failed is retried. */
interface Retry {
  until: number;
  delay: number;
}

/**
 * Seals the entries in the outbox in the background. Several servers may do so on one database; a lock per chain keeps
 * them apart. A failure is logged and retried later, and delays neither requests nor other chains.
 */
export class ChainWriter {
  readonly #options: ChainWriterOptions;
  readonly #timing: ChainWriterTiming;
  readonly #sweep: Timer;
  readonly #names = new NameIndexCache();
  readonly #retries = new Map<string, Retry>();
  #timer: Timer | undefined;
  /** The current or last work; new work is chained to it. */
  #work: Promise<void> = Promise.resolve();
  #delay = 0;
  #retryAt = 0;
  #closed = false;

  constructor(options: ChainWriterOptions) {
    this.#options = options;
    this.#timing = { ...TIMING, ...options.timing };
    this.#sweep = clock.setInterval(() => this.wake(), this.#timing.sweepMs).unref();
  }

  /** Call it after a commit that may have added entries. */
  wake(): void {
    if (this.#closed || this.#timer !== undefined) return;
    const wait = Math.max(this.#timing.collectMs, this.#retryAt - clock.monotonic());
    this.#timer = clock
      .setTimeout(() => {
        this.#timer = undefined;
        void this.flush();
      }, wait)
      .unref();
  }

  /** Seals everything that waits now, as far as possible. Never rejects. */
  flush(): Promise<void> {
    this.#work = this.#work.then(() => this.#drain());
    return this.#work;
  }

  /** The number of chains that currently cannot be sealed. An operator must act if it stays above zero. */
  failing(): number {
    return this.#retries.size + (this.#delay > 0 ? 1 : 0);
  }

  /** Seals what is left, then stops. */
  async close(): Promise<void> {
    this.#closed = true;
    clock.clear(this.#sweep);
    clock.clear(this.#timer);
    await this.flush();
  }

  async #drain(): Promise<void> {
    try {
      let full = false;
      do {
        full = await this.#sealNext(full);
      } while (full);
      this.#delay = 0;
      this.#retryAt = 0;
    } catch (error) {
      this.#delay = longer(this.#delay, this.#timing);
      this.#retryAt = clock.monotonic() + this.#delay;
      // An unreachable database is reported where it is used, and the entries wait in it.
      const level = isDatabaseAway(error) ? 'warn' : 'error';
      this.#options.log[level]({ err: error, retryMs: this.#delay }, 'audit.not_sealed');
    }
  }

  /**
   * Seals one batch. If that fails, it seals chain by chain, so that a damaged chain does not stop the others. Throws if
   * the database does not respond.
   * @param isBehind  the last batch was full
   * @returns whether there may be more entries
   */
  async #sealNext(isBehind: boolean): Promise<boolean> {
    const { batch: limit } = this.#timing;
    const without = this.#notDue();
    try {
      const choice = { limit, without };
      const sealed = await (isBehind ? this.#batchWithPrefetch(choice) : this.#batch(choice));
      // The batch included the chains whose retry was due.
      for (const chainId of this.#retries.keys()) {
        if (!without.includes(chainId)) this.#retries.delete(chainId);
      }
      return sealed === limit;
    } catch (whole) {
      // No chain is at fault.
      if (isDatabaseAway(whole)) throw whole;
      const failed: { chainId: string; error: unknown }[] = [];
      let full = false;
      for (const chainId of await waitingChains(this.#options.db)) {
        if (without.includes(chainId)) continue;
        try {
          full = (await this.#batch({ limit, without, only: chainId })) === limit || full;
          this.#retries.delete(chainId);
        } catch (error) {
          if (isDatabaseAway(error)) {
            this.#scheduleRetries(failed);
            throw error;
          }
          failed.push({ chainId, error });
        }
      }
      this.#scheduleRetries(failed);
      return full;
    }
  }

  async #batch(choice: BatchChoice): Promise<number> {
    const { db, keys } = this.#options;
    const batch = await sealBatch(db, keys, this.#names, choice);
    this.#report(batch);
    return batch.entries.length;
  }

  async #batchWithPrefetch(choice: BatchChoice): Promise<number> {
    const { db } = this.#options;
    // If the prefetch fails, the next batch inserts the names itself and reports the error if it cannot.
    const prefetch = prefetchNameIndex(db, this.#names, choice).catch(() => {});
    try {
      return await this.#batch(choice);
    } finally {
      await prefetch;
    }
  }

  #report(batch: Batch): void {
    const now = clock.now();
    for (const { timestamp } of batch.entries) {
      this.#options.onSealed?.(Math.max(0, now - Date.parse(timestamp)) / 1000);
    }
    // A collected log keeps the checkpoints out of reach of anyone who can change the database.
    for (const { chainId, ...checkpoint } of batch.kept) {
      this.#options.log.info({ chainId, checkpoint }, 'audit.checkpoint');
    }
  }

  #notDue(): string[] {
    const now = clock.monotonic();
    return [...this.#retries].filter(([, { until }]) => until > now).map(([chain]) => chain);
  }

  #scheduleRetries(failed: readonly { chainId: string; error: unknown }[]): void {
    for (const { chainId } of failed) {
      const delay = longer(this.#retries.get(chainId)?.delay ?? 0, this.#timing);
      this.#retries.set(chainId, { until: clock.monotonic() + delay, delay });
    }
    const [first] = failed;
    if (first === undefined) return;
    const { chainId, error } = first;
    this.#options.log.error({ err: error, chainId, chains: failed.length }, 'audit.chains_not_sealed');
  }
}

const longer = (delay: number, { retryMs, retryMaxMs }: ChainWriterTiming) =>
  Math.min(Math.max(retryMs, delay * 2), retryMaxMs);

/**
 * While a batch is sealed, indexes the names in the entries of the next batch, so that sealing that batch inserts few
 * names itself. Nothing depends on it: a name may be indexed before its entry is sealed without harm.
 */
async function prefetchNameIndex(
  db: Db,
  names: NameIndexCache,
  { limit, without }: BatchChoice,
): Promise<void> {
  const inSystem = <T>(work: (tx: Tx) => Promise<T>) =>
    withSystem(db, 'index the names in audit entries of the next batch', work);
  const waiting = await inSystem((tx) => runPrepared<NamedEntry>(tx, NEXT_BATCH, [limit, without]));
  const { actors, resources } = names.unindexed(waiting);
  // Separate transactions: another that inserts the same names then waits for at most one of the two.
  if (actors.length > 0) {
    await inSystem((tx) => runPrepared(tx, ACTORS, [JSON.stringify(actors)]));
    names.markIndexed({ actors, resources: [] });
  }
  if (resources.length > 0) {
    await inSystem(async (tx) => {
      await runPrepared(tx, LOCK_NAMES_SHARED, []);
      await runPrepared(tx, RESOURCES, [JSON.stringify(resources)]);
    });
    names.markIndexed({ actors: [], resources });
  }
}

const ACTORS = { name: 'audit-index-actors', text: insertActorsSql('$1') };

const RESOURCES = { name: 'audit-index-resources', text: insertResourcesSql('$1') };
