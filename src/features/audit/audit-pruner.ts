import { type DueChain, dueChains, recordPruning, tryPruningLock } from './audit-retention.queries.ts';
import { z } from 'zod';
import { clock } from '../../clock.ts';
import { openSession, type Db } from '../../platform/db/pool.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import type { Logger } from '../../platform/logger.ts';

import { cutChain, nextPortion, type Portion, type PruneSizes, RetentionFailure } from './prune-chain.ts';

import type { SigningKeys } from './signing-keys.ts';
import { removeUnusedNames } from './name-index.ts';

const SIZES: PruneSizes = { portion: 100_000, step: 5000 };
/** The pause between steps, in which the chain writer can lock the chain. */
const PAUSE_MS = 50;

/** Where entries are copied before they are removed. */
export interface EntryArchive {
  /** Resolves when the whole portion is stored and verified. */
  store(portion: Portion, signal: AbortSignal): Promise<void>;
}

export interface AuditPrunerOptions {
  db: Db;
  /** The URL of the role svc_audit_admin, the only one that can remove entries. If undefined, nothing is ever removed. */
  adminUrl: string | undefined;
  keys: SigningKeys;
  archive: EntryArchive | undefined;
  /** Rewrites the name sheets from which pruning removed names. If absent, the daily compaction does it. */
  compactor?: { compact(signal: AbortSignal): Promise<number> };
  log: Logger;
  sizes?: PruneSizes;
}

export const PruneResult = z.object({
  /** `off`: `adminUrl` is not set; `elsewhere`: another server is pruning. */
  ran: z.enum(['here', 'elsewhere', 'off']),
  removed: z.number(),
  failed: z.number(),
});
export type PruneResult = z.infer<typeof PruneResult>;

/** Removes expired audit entries, on one server at a time. */
export class AuditPruner {
  readonly #options: AuditPrunerOptions;

  constructor(options: AuditPrunerOptions) {
    this.#options = options;
  }

  /** Prunes all chains once. If `signal` is aborted, it ends after the current step. */
  async prune(signal = new AbortController().signal): Promise<PruneResult> {
    const { adminUrl } = this.#options;
    if (adminUrl === undefined) return { ran: 'off', removed: 0, failed: 0 };
    const session = openSession(adminUrl, 'muster-audit-prune');
    try {
      // A session lock, released if the server dies. It only avoids double work; two pruners on one chain are safe.
      if (!(await tryPruningLock(session))) return { ran: 'elsewhere', removed: 0, failed: 0 };
      return await this.#pruneAll(session, signal);
    } finally {
      await session.destroy();
    }
  }

  async #pruneAll(session: Db, signal: AbortSignal): Promise<PruneResult> {
    const failures = new Map<string, string>();
    const unfinished: string[] = [];
    let removed = 0;
    for (const chain of await this.#due()) {
      try {
        // Counted per step, so that removed entries count even if a later step fails.
        await this.#pruneChain(session, chain, signal, (entries) => (removed += entries));
        if (signal.aborted) unfinished.push(chain.chainId);
      } catch (error) {
        const { chainId } = chain;
        if (signal.aborted) {
          unfinished.push(chainId);
          continue;
        }
        this.#options.log.error({ err: error, chainId }, 'audit.not_pruned');
        failures.set(
          chainId,
          error instanceof RetentionFailure ? error.message : 'See the server log for the reason.',
        );
      }
    }
    await this.#recordOutcome(failures, unfinished);
    await this.#removeNames(signal);
    return { ran: 'here', removed, failed: failures.size };
  }

  async #pruneChain(
    session: Db,
    { chainId, archives, before }: DueChain,
    signal: AbortSignal,
    onRemoved: (entries: number) => void,
  ): Promise<void> {
    const { db, keys, archive, log, sizes = SIZES } = this.#options;
    while (!signal.aborted) {
      const portion = await nextPortion(db, keys, { chainId, before }, sizes);
      if (portion === undefined) break;
      if (archives) {
        if (archive === undefined) {
          throw new RetentionFailure('This server has no audit archive.');
        }
        await archive.store(portion, signal);
      }
      for (const point of portion.steps) {
        if (signal.aborted) break;
        const step = await cutChain(session, portion, point);
        if (step === undefined) continue;
        onRemoved(step.entries);
        const { chainId: _chain, ...checkpoint } = step.cut;
        log.info({ chainId, checkpoint }, 'audit.checkpoint');
        await clock.sleep(PAUSE_MS);
      }
    }
  }

  /** Separate from the entries: a failure here does not undo the pruning. */
  async #removeNames(signal: AbortSignal): Promise<void> {
    const { db, log, compactor } = this.#options;
    try {
      const names = await removeUnusedNames(db, signal);
      if (names === 0) return;
      log.info({ names }, 'audit.names_removed');
      await compactor?.compact(signal);
    } catch (error) {
      log.warn({ err: error }, 'audit.names_not_removed');
    }
  }

  /**
   * The chains of partners and of the system have no policy of their own. They use the longest retention of their
   * organizations, and are archived if any of these is.
   */
  async #due(): Promise<DueChain[]> {
    return withSystem(this.#options.db, 'find audit chains with expired entries', dueChains);
  }

  /** Covers all organizations: having nothing to remove counts as success. */
  async #recordOutcome(failures: ReadonlyMap<string, string>, unfinished: readonly string[]): Promise<void> {
    await withSystem(this.#options.db, 'record the outcome of audit pruning', (tx) =>
      recordPruning(tx, { failures, unfinished }),
    );
  }
}
