import { z } from 'zod';
import { clock } from '../../../clock.ts';
import { openSession, type Db } from '../../../platform/db/pool.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import type { Logger } from '../../../platform/logger.ts';
import { ZERO_UUID } from '../chain/chain.ts';
import { cutChain, nextPortion, type Portion, type PruneSizes, RetentionFailure } from './prune-chain.ts';
import { DEFAULT_RETENTION_DAYS } from './retention.schema.ts';
import type { SigningKeys } from '../storage/signing-keys.ts';
import { removeUnusedNames } from '../name-index/unused-names.ts';

const SIZES: PruneSizes = { portion: 100_000, step: 5000 };
/** The pause between steps, in which the sealer can lock the chain. */
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

interface DueChain {
  chainId: string;
  archives: boolean;
  before: Date;
}

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
      const { rows } = await session.raw(
        `select pg_try_advisory_lock(hashtextextended('audit-prune', 0)) as got`,
      );
      if (rows[0].got !== true) return { ran: 'elsewhere', removed: 0, failed: 0 };
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
    return withSystem(this.#options.db, 'find audit chains with expired entries', async (tx) => {
      const { rows } = await tx.raw<{ rows: DueChain[] }>(
        `with policies as (
          select o.id, o.partner_id, coalesce(r.retention_days, ${DEFAULT_RETENTION_DAYS}) as days,
            coalesce(r.archive_to_s3, false) as archives
          from organizations o left join audit_retention_policies r on r.org_id = o.id
        ), chosen as (
          select id as chain_id, days, archives from policies
          union all
          select partner_id, max(days), bool_or(archives) from policies group by partner_id
          union all
          select '${ZERO_UUID}', max(days), bool_or(archives) from policies
        )
        select h.chain_id as "chainId", coalesce(c.archives, false) as archives, kept.since as before
        from audit_chain_heads h left join chosen c on c.chain_id = h.chain_id
        cross join lateral (
          select now() - make_interval(days => coalesce(c.days, ${DEFAULT_RETENTION_DAYS})) as since
        ) kept
        cross join lateral (
          select "timestamp" from audit_logs where chain_id = h.chain_id order by seq limit 1
        ) oldest
        where oldest."timestamp" < kept.since order by h.chain_id`,
      );
      return rows;
    });
  }

  /** Covers all organizations: having nothing to remove counts as success. */
  async #recordOutcome(failures: ReadonlyMap<string, string>, unfinished: readonly string[]): Promise<void> {
    await withSystem(this.#options.db, 'record the outcome of audit pruning', async (tx) => {
      await tx.raw(
        `insert into audit_retention_policies as r (org_id, last_cleanup_at, last_failure, last_failure_at)
        select o.id, case when f.reason is null then now() end, f.reason, case when f.reason is not null then now() end
        from organizations o left join unnest(?::uuid[], ?::text[]) as f (org_id, reason) on f.org_id = o.id
        where not o.id = any(?::uuid[])
        on conflict (org_id) do update set last_cleanup_at = coalesce(excluded.last_cleanup_at, r.last_cleanup_at),
          last_failure = excluded.last_failure, last_failure_at = excluded.last_failure_at`,
        [[...failures.keys()], [...failures.values()], [...unfinished]],
      );
    });
  }
}
