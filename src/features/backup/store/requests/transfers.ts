import { FairSlots, type Slot } from '../../../../platform/fair-slots.ts';
import { AppError } from '../../../../platform/errors.ts';
import type { StoreAccess } from '../records/credentials.ts';

/** restic's own number of connections. */
const OF_REPOSITORY = 5;
const OF_ALL = 160;
/** Longer than a slow transfer keeps its slot where somebody waits. */
const WAIT_MS = 90_000;
const RETRY_AFTER_MS = 5000;
/** Bytes in a second: a line of 320 kbit/s, over restic's connections. */
const LEAST_RATE = 8 * 1024;

/** Shares out the objects that are sent or received at once, so that no device and no tenant keeps others out. */
export class Transfers {
  readonly #slots = new FairSlots({
    all: OF_ALL,
    waitMs: WAIT_MS,
    waitingMax: { all: 10 * OF_ALL, widest: 2 * OF_ALL },
    leastRate: LEAST_RATE,
    refusal: () =>
      new AppError('rate_limited', 'Too many objects are being transferred at once.', {
        retryAfterMs: RETRY_AFTER_MS,
      }),
  });

  get state(): { running: number; waiting: number; refused: number } {
    return this.#slots.state;
  }

  /** Throws `rate_limited` where the transfer does not get its turn in time. */
  run<T>(
    {
      access,
      signal,
    }: { access: Pick<StoreAccess, 'repositoryId' | 'orgId' | 'partnerId'>; signal: AbortSignal },
    work: (slot: Slot) => Promise<T>,
  ): Promise<T> {
    const { repositoryId, orgId, partnerId } = access;
    return this.#slots.run(
      {
        levels: [`partner ${partnerId}`, `organization ${orgId}`],
        leaf: { key: `repository ${repositoryId}`, max: OF_REPOSITORY, waitingMax: 2 * OF_REPOSITORY },
      },
      work,
      { signal },
    );
  }
}
