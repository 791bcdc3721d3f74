import { clock } from '../../../clock.ts';
import { ConcurrencyLimiter } from '../../../platform/concurrency-limiter.ts';
import type { DetachedContext } from '../../../platform/context.ts';
import { answeringFailures } from './engine-failures.ts';

/** Well before proxies give up. */
const WALK_MS = 20_000;
const WALKS_MAX = 2;
/** More entries are not looked at for one answer. */
export const WALKED_MAX = 2_000_000;

/** Walks through snapshots of all callers: each keeps a processor busy for seconds. */
export class SnapshotWalks {
  readonly #limiter = new ConcurrencyLimiter({ waitMs: WALK_MS });

  /** Hands `work` what says that it has taken long enough, or that nobody waits for it any more. */
  run<T>(
    { caller }: Pick<DetachedContext, 'caller'>,
    signal: AbortSignal,
    work: (isOver: () => boolean) => Promise<T>,
  ): Promise<T> {
    const shares = [
      { key: `person ${caller.userId}`, max: 1, waitingMax: 3 },
      { key: 'all', max: WALKS_MAX },
    ];
    return this.#limiter.run(
      shares,
      () => {
        const end = clock.now() + WALK_MS;
        return answeringFailures(() => work(() => clock.now() > end || signal.aborted));
      },
      { signal },
    );
  }
}
