import { clock } from '../clock.ts';
import { AppError } from './errors.ts';
import { isDatabaseAway } from './db/database-errors.ts';
import type { Caller } from './context.ts';

/** At most `max` pieces of work that name the same key run at once. */
interface Share {
  key: string;
  max: number;
  /** So much work of this key waits at most; the rest is refused at once. Default: 40. */
  waitingMax?: number;
}

interface Waiter {
  shares: readonly Share[];
  begin: () => void;
}

/** Work waits this long for its turn, and is refused then. */
const WAIT_MS = 3000;
const WAITING_MAX = 40;
const RETRY_AFTER_MS = 2000;

/**
 * Runs work while each of its shares has room. The rest waits in the order in which it came, but work whose shares have
 * room passes work whose shares are full: a person who asks for too much waits for themselves alone.
 */
export class ConcurrencyLimiter {
  readonly #running = new Map<string, number>();
  readonly #waitingOf = new Map<string, number>();
  readonly #waiting = new Set<Waiter>();
  readonly #waitMs: number;
  readonly #waitingMax: number;
  #refused = 0;

  constructor({ waitMs = WAIT_MS, waitingMax = WAITING_MAX }: { waitMs?: number; waitingMax?: number } = {}) {
    this.#waitMs = waitMs;
    this.#waitingMax = waitingMax;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** How much work was refused so far. */
  get refused(): number {
    return this.#refused;
  }

  /**
   * Throws `rate_limited` if the work does not get its turn in time.
   * @param isPatient  the work waits for as long as it takes: for the rest of something that has begun
   */
  async run<T>(
    shares: readonly Share[],
    work: () => PromiseLike<T>,
    { isPatient = false, signal }: { isPatient?: boolean; signal?: AbortSignal | undefined } = {},
  ): Promise<T> {
    if (this.#hasRoom(shares)) this.#count(this.#running, shares, 1);
    else await this.#turn(shares, isPatient, signal);
    try {
      return await work();
    } finally {
      this.#count(this.#running, shares, -1);
      this.#beginOthers();
    }
  }

  /** Resolves when the work is counted as running. */
  async #turn(shares: readonly Share[], isPatient: boolean, signal: AbortSignal | undefined): Promise<void> {
    const isFull = shares.some(
      ({ key, waitingMax = this.#waitingMax }) => (this.#waitingOf.get(key) ?? 0) >= waitingMax,
    );
    if (isFull && !isPatient) throw this.#refusal();
    await new Promise<void>((resolve, reject) => {
      const leave = () => {
        this.#waiting.delete(waiter);
        this.#count(this.#waitingOf, shares, -1);
        clock.clear(timer);
        signal?.removeEventListener('abort', giveUp);
      };
      const giveUp = () => {
        leave();
        reject(this.#refusal());
      };
      const waiter: Waiter = {
        shares,
        begin: () => {
          leave();
          this.#count(this.#running, shares, 1);
          resolve();
        },
      };
      const timer = isPatient ? undefined : clock.setTimeout(giveUp, this.#waitMs);
      this.#waiting.add(waiter);
      this.#count(this.#waitingOf, shares, 1);
      if (signal?.aborted === true) giveUp();
      else signal?.addEventListener('abort', giveUp);
    });
  }

  #hasRoom(shares: readonly Share[]): boolean {
    return shares.every(({ key, max }) => (this.#running.get(key) ?? 0) < max);
  }

  #beginOthers(): void {
    for (const waiter of this.#waiting) if (this.#hasRoom(waiter.shares)) waiter.begin();
  }

  #count(counts: Map<string, number>, shares: readonly Share[], by: 1 | -1): void {
    for (const { key } of shares) {
      const count = (counts.get(key) ?? 0) + by;
      if (count > 0) counts.set(key, count);
      else counts.delete(key);
    }
  }

  #refusal(): AppError {
    this.#refused += 1;
    return new AppError(
      'rate_limited',
      'Too many expensive requests are running at once. Wait for some of them to end, then try again.',
      { retryAfterMs: RETRY_AFTER_MS },
    );
  }
}

/**
 * Does the same for each item, one after another. An item that fails keeps no other from its turn: rounds go over the
 * records of all tenants. A database that is away fails them all, and so ends the round.
 * @param onFailed  called with each failure, after which the next item has its turn
 * @returns how many have failed
 */
export async function eachByItself<T>(
  items: readonly T[],
  work: (item: T) => Promise<unknown>,
  onFailed: (error: unknown, item: T) => unknown,
): Promise<number> {
  let failed = 0;
  for (const item of items) {
    try {
      await work(item);
    } catch (error) {
      if (isDatabaseAway(error)) throw error;
      failed += 1;
      await onFailed(error, item);
    }
  }
  return failed;
}

/** The caller as limits count them: an API key counts as the person who made it. */
type Worker = Pick<Caller, 'userId' | 'partnerId' | 'orgId'>;

/** The most that one person may have waiting, so that they cannot fill the queue of the others. */
const WAITING_OF_TENANT = 120;
const WAITING_OF_ALL = 400;

/**
 * Shares out the connections of one pool among those whose statements may take long, so that no caller keeps all of them
 * and cheap requests always find one. It counts within this process, as the pool does.
 */
export class ExpensiveWork {
  readonly #limiter: ConcurrencyLimiter;
  readonly #ofPerson: number;
  readonly #ofTenant: number;
  readonly #ofAll: number;

  constructor({
    poolSize,
    limiter = new ConcurrencyLimiter(),
  }: { poolSize: number; limiter?: ConcurrencyLimiter }) {
    this.#limiter = limiter;
    this.#ofPerson = part(poolSize, 0.3);
    this.#ofTenant = part(poolSize, 0.5);
    this.#ofAll = part(poolSize, 0.8);
  }

  get state(): { waiting: number; refused: number } {
    return { waiting: this.#limiter.waiting, refused: this.#limiter.refused };
  }

  /** Runs work that holds a connection. Throws `rate_limited` if it does not get its turn in time. */
  run<T>(
    worker: Worker,
    work: () => PromiseLike<T>,
    options?: { isPatient?: boolean; signal?: AbortSignal | undefined },
  ): Promise<T> {
    return this.#limiter.run(this.#sharesOf(worker), work, options);
  }

  #sharesOf({ userId, partnerId, orgId }: Worker): Share[] {
    return [
      { key: `person ${userId}`, max: this.#ofPerson },
      { key: `tenant ${partnerId ?? orgId ?? 'system'}`, max: this.#ofTenant, waitingMax: WAITING_OF_TENANT },
      { key: 'all', max: this.#ofAll, waitingMax: WAITING_OF_ALL },
    ];
  }
}

const part = (of: number, share: number) => Math.max(1, Math.floor(of * share));
