import type { Db } from '../../../platform/db/pool.ts';
import type { Logger } from '../../../platform/logger.ts';
import { prefetchNameIndex } from './prefetch-name-index.ts';
import { NameIndexCache } from '../name-index/name-index-cache.ts';
import { type Batch, type BatchChoice, sealBatch, waitingChains } from './seal-batch.ts';
import type { SigningKeys } from '../storage/signing-keys.ts';

export interface SealerOptions {
  db: Db;
  keys: SigningKeys;
  log: Logger;
  /** Told of each entry how long after its deed it was sealed. */
  onSealed?: (lagSeconds: number) => void;
  timing?: Partial<SealerTiming>;
}

export interface SealerTiming {
  batch: number;
  /** How long entries gather before they are sealed together. */
  gatherMs: number;
  /** How often it looks for entries that nobody woke it for: those of a server that died between commit and sealing. */
  sweepMs: number;
  retryMs: number;
  retryMaxMs: number;
}

const TIMING: SealerTiming = { batch: 500, gatherMs: 100, sweepMs: 5000, retryMs: 500, retryMaxMs: 60_000 };

/** A chain that could not be written to, and when it is tried again. */
interface SetAside {
  until: number;
  delay: number;
}

/**
 * Seals what waits in the outbox, in the background. Several servers may do so on one database; the lock on a chain
 * keeps them apart. A failure is logged and tried again later, and keeps neither a request nor another chain waiting.
 */
export class AuditSealer {
  readonly #options: SealerOptions;
  readonly #timing: SealerTiming;
  readonly #sweep: NodeJS.Timeout;
  readonly #names = new NameIndexCache();
  readonly #aside = new Map<string, SetAside>();
  #timer: NodeJS.Timeout | undefined;
  /** The work that is under way or done last; the next begins behind it. */
  #work: Promise<void> = Promise.resolve();
  #delay = 0;
  #retryAt = 0;
  #closed = false;

  constructor(options: SealerOptions) {
    this.#options = options;
    this.#timing = { ...TIMING, ...options.timing };
    this.#sweep = setInterval(() => this.wake(), this.#timing.sweepMs).unref();
  }

  /** There may be something to seal. */
  wake(): void {
    if (this.#closed || this.#timer !== undefined) return;
    const wait = Math.max(this.#timing.gatherMs, this.#retryAt - performance.now());
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      void this.flush();
    }, wait).unref();
  }

  /** Seals all that waits now, as far as it can be. Does not fail. */
  flush(): Promise<void> {
    this.#work = this.#work.then(() => this.#drain());
    return this.#work;
  }

  /** Chains that cannot be written to at the moment; more than none for long means that someone must look. */
  failing(): number {
    return this.#aside.size + (this.#delay > 0 ? 1 : 0);
  }

  /** Seals what is left, and no more after that. */
  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#sweep);
    clearTimeout(this.#timer);
    await this.flush();
  }

  async #drain(): Promise<void> {
    try {
      let full = false;
      do {
        full = await this.#sealSome(full);
      } while (full);
      this.#delay = 0;
      this.#retryAt = 0;
    } catch (error) {
      this.#delay = longer(this.#delay, this.#timing);
      this.#retryAt = performance.now() + this.#delay;
      this.#options.log.error({ err: error, retryMs: this.#delay }, 'audit.not_sealed');
    }
  }

  /** One batch; where that fails, chain by chain, so that one that is damaged does not stop the others. Answers whether
   * there may be more. Throws where the database does not answer.
   * @param isBehind  the last batch was full */
  async #sealSome(isBehind: boolean): Promise<boolean> {
    const { batch: limit } = this.#timing;
    const without = this.#setAside();
    try {
      const choice = { limit, without };
      const sealed = await (isBehind ? this.#batchNotingAhead(choice) : this.#batch(choice));
      // Those that were due again were part of it.
      for (const chainId of this.#aside.keys()) if (!without.includes(chainId)) this.#aside.delete(chainId);
      return sealed === limit;
    } catch {
      const failed: { chainId: string; error: unknown }[] = [];
      let full = false;
      for (const chainId of await waitingChains(this.#options.db)) {
        if (without.includes(chainId)) continue;
        try {
          full = (await this.#batch({ limit, without, only: chainId })) === limit || full;
          this.#aside.delete(chainId);
        } catch (error) {
          failed.push({ chainId, error });
        }
      }
      this.#putAside(failed);
      return full;
    }
  }

  async #batch(choice: BatchChoice): Promise<number> {
    const { db, keys } = this.#options;
    const batch = await sealBatch(db, keys, this.#names, choice);
    this.#tell(batch);
    return batch.entries.length;
  }

  async #batchNotingAhead(choice: BatchChoice): Promise<number> {
    const { db } = this.#options;
    // Where that fails, its batch notes what it must, and says why if it cannot.
    const noting = prefetchNameIndex(db, this.#names, choice).catch(() => {});
    try {
      return await this.#batch(choice);
    } finally {
      await noting;
    }
  }

  #tell(batch: Batch): void {
    const now = Date.now();
    for (const { timestamp } of batch.entries) {
      this.#options.onSealed?.(Math.max(0, now - Date.parse(timestamp)) / 1000);
    }
    // Whoever collects the log holds what cannot be taken back from the database.
    for (const { chainId, ...checkpoint } of batch.kept) {
      this.#options.log.info({ chainId, checkpoint }, 'audit.checkpoint');
    }
  }

  #setAside(): string[] {
    const now = performance.now();
    return [...this.#aside].filter(([, { until }]) => until > now).map(([chain]) => chain);
  }

  #putAside(failed: readonly { chainId: string; error: unknown }[]): void {
    for (const { chainId } of failed) {
      const delay = longer(this.#aside.get(chainId)?.delay ?? 0, this.#timing);
      this.#aside.set(chainId, { until: performance.now() + delay, delay });
    }
    const [first] = failed;
    if (first === undefined) return;
    const { chainId, error } = first;
    this.#options.log.error({ err: error, chainId, chains: failed.length }, 'audit.chains_not_sealed');
  }
}

const longer = (delay: number, { retryMs, retryMaxMs }: SealerTiming) =>
  Math.min(Math.max(retryMs, delay * 2), retryMaxMs);
