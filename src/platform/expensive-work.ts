import { ConcurrencyLimiter, type Share } from './concurrency-limiter.ts';
import type { Caller } from './context.ts';

/** Who works: an API key counts as the person who made it. */
type Worker = Pick<Caller, 'userId' | 'partnerId' | 'orgId'>;

/** More than one person may have waiting, so that nobody can fill the queue of the others. */
const WAITING_OF_TENANT = 120;
const WAITING_OF_ALL = 400;

/**
 * Shares out the connections of one pool among those whose statements may take long, so that nobody keeps all of them
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

  /** Runs work that holds a connection. Throws `rate_limited` where it does not get its turn in time. */
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
