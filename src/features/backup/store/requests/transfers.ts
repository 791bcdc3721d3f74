import { ConcurrencyLimiter } from '../../../../platform/concurrency-limiter.ts';
import { AppError } from '../../../../platform/errors.ts';
import type { StoreAccess } from '../records/credentials.ts';

/** restic's own number of connections. */
const OF_REPOSITORY = 5;
const OF_TENANT = 40;
const OF_ALL = 80;
const WAIT_MS = 30_000;
const RETRY_AFTER_MS = 5000;

/** Shares out the objects that are sent or received at once, so that no device and no partner takes everything. */
export class Transfers {
  readonly #limiter = new ConcurrencyLimiter({ waitMs: WAIT_MS });
  #running = 0;

  get state(): { running: number; waiting: number; refused: number } {
    return { running: this.#running, waiting: this.#limiter.waiting, refused: this.#limiter.refused };
  }

  /** Throws `rate_limited` where the transfer does not get its turn in time. */
  async run<T>(
    { access, signal }: { access: Pick<StoreAccess, 'repositoryId' | 'partnerId'>; signal: AbortSignal },
    work: () => Promise<T>,
  ): Promise<T> {
    let hasBegun = false;
    try {
      return await this.#limiter.run(
        [
          { key: `repository ${access.repositoryId}`, max: OF_REPOSITORY, waitingMax: 2 * OF_REPOSITORY },
          { key: `partner ${access.partnerId}`, max: OF_TENANT, waitingMax: 4 * OF_TENANT },
          { key: 'all', max: OF_ALL, waitingMax: 10 * OF_ALL },
        ],
        () => {
          hasBegun = true;
          return this.#counted(work);
        },
        { signal },
      );
    } catch (error) {
      if (hasBegun || !(error instanceof AppError)) throw error;
      throw new AppError('rate_limited', 'Too many objects are being transferred at once.', {
        retryAfterMs: RETRY_AFTER_MS,
      });
    }
  }

  async #counted<T>(work: () => Promise<T>): Promise<T> {
    this.#running += 1;
    try {
      return await work();
    } finally {
      this.#running -= 1;
    }
  }
}
