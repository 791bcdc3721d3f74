import { Daily } from '../../../platform/daily.ts';
import { openSession, type Db } from '../../../platform/db/pool.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import type { Logger } from '../../../platform/logger.ts';
import { ZERO_UUID } from '../chain/chain.ts';
import { cutChain, nextPortion, type Portion, type PruneSizes, RetentionFailure } from './prune-chain.ts';
import { DEFAULT_RETENTION_DAYS } from './retention.schema.ts';
import type { SigningKeys } from '../storage/signing-keys.ts';
import { removeUnusedNames } from '../name-index/unused-names.ts';

const SIZES: PruneSizes = { portion: 100_000, step: 5000 };
/** Between steps, so that sealing gets its turn. */
const PAUSE_MS = 50;

/** Where entries go before they are removed. */
export interface EntryArchive {
  /** Resolves when the portion is there, whole and checked. */
  store(portion: Portion, signal: AbortSignal): Promise<void>;
}

export interface AuditPrunerOptions {
  db: Db;
  /** Of svc_audit_admin, the only role that can remove entries; absent: nothing is ever removed. */
  adminUrl: string | undefined;
  keys: SigningKeys;
  archive: EntryArchive | undefined;
  /** Writes anew what pruning takes names out of; absent: the daily round does it. */
  sheets?: { gather(): Promise<number> };
  log: Logger;
  sizes?: PruneSizes;
}

export interface Cleanup {
  /** `off`: there is no connection for it; `elsewhere`: another server is at it. */
  ran: 'here' | 'elsewhere' | 'off';
  removed: number;
  failed: number;
}

interface DueChain {
  chainId: string;
  archives: boolean;
  before: Date;
}

/** Removes audit entries whose time is over, once a day, on one server at a time. */
export class AuditPruner {
  readonly #options: AuditPrunerOptions;
  readonly #daily: Daily;
  readonly #closing = new AbortController();

  constructor(options: AuditPrunerOptions) {
    this.#options = options;
    const run = async () => this.remove();
    const { log } = options;
    this.#daily = new Daily({ run, log, done: 'audit.old_removed', failed: 'audit.old_not_removed' });
  }

  start(): void {
    if (this.#options.adminUrl !== undefined) return this.#daily.start();
    this.#options.log.warn({ missing: 'AUDIT_ADMIN_DATABASE_URL' }, 'audit.cleanup_off');
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#daily.close();
  }

  /** One round through all chains. */
  async remove(): Promise<Cleanup> {
    const { adminUrl } = this.#options;
    if (adminUrl === undefined) return { ran: 'off', removed: 0, failed: 0 };
    const session = openSession(adminUrl, 'muster-audit-prune');
    try {
      // Of the session: it goes with a server that dies. That two work on one chain does no harm, but is no use.
      const { rows } = await session.raw(
        `select pg_try_advisory_lock(hashtextextended('audit-prune', 0)) as got`,
      );
      if (rows[0].got !== true) return { ran: 'elsewhere', removed: 0, failed: 0 };
      return await this.#round(session);
    } finally {
      await session.destroy();
    }
  }

  async #round(session: Db): Promise<Cleanup> {
    const failures = new Map<string, string>();
    const left: string[] = [];
    let removed = 0;
    for (const chain of await this.#due()) {
      try {
        // What is gone is gone, also where the rest then fails.
        await this.#prune(session, chain, (entries) => (removed += entries));
        if (this.#closing.signal.aborted) left.push(chain.chainId);
      } catch (error) {
        const { chainId } = chain;
        if (this.#closing.signal.aborted) {
          left.push(chainId);
          continue;
        }
        this.#options.log.error({ err: error, chainId }, 'audit.not_pruned');
        failures.set(
          chainId,
          error instanceof RetentionFailure ? error.message : 'The log of the server tells why.',
        );
      }
    }
    await this.#note(failures, left);
    await this.#removeNames();
    return { ran: 'here', removed, failed: failures.size };
  }

  async #prune(
    session: Db,
    { chainId, archives, before }: DueChain,
    onRemoved: (entries: number) => void,
  ): Promise<void> {
    const { db, keys, archive, log, sizes = SIZES } = this.#options;
    while (!this.#closing.signal.aborted) {
      const portion = await nextPortion(db, keys, { chainId, before }, sizes);
      if (portion === undefined) break;
      if (archives) {
        if (archive === undefined) {
          throw new RetentionFailure('This server has no archive to copy entries to.');
        }
        await archive.store(portion, this.#closing.signal);
      }
      for (const place of portion.steps) {
        if (this.#closing.signal.aborted) break;
        const step = await cutChain(session, portion, place);
        if (step === undefined) continue;
        onRemoved(step.entries);
        const { chainId: _chain, ...checkpoint } = step.cut;
        log.info({ chainId, checkpoint }, 'audit.checkpoint');
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      }
    }
  }

  /** Apart from the entries: that a name is still there does no harm to what was pruned. */
  async #removeNames(): Promise<void> {
    const { db, log, sheets } = this.#options;
    try {
      const names = await removeUnusedNames(db, this.#closing.signal);
      if (names === 0) return;
      log.info({ names }, 'audit.names_removed');
      await sheets?.gather();
    } catch (error) {
      log.warn({ err: error }, 'audit.names_not_removed');
    }
  }

  /**
   * What concerns no organization, but a partner itself or the whole system, has no policy of its own: it is kept as long
   * as the longest of its organizations, and copied to the archive if one of theirs is.
   */
  async #due(): Promise<DueChain[]> {
    return withSystem(
      this.#options.db,
      'find the audit trails with entries whose time is over',
      async (tx) => {
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
      },
    );
  }

  /** For all organizations: of most there was nothing to remove, which went well too. */
  async #note(failures: ReadonlyMap<string, string>, left: readonly string[]): Promise<void> {
    await withSystem(this.#options.db, 'note how the cleanup of the audit trail went', async (tx) => {
      await tx.raw(
        `insert into audit_retention_policies as r (org_id, last_cleanup_at, last_failure, last_failure_at)
        select o.id, case when f.reason is null then now() end, f.reason, case when f.reason is not null then now() end
        from organizations o left join unnest(?::uuid[], ?::text[]) as f (org_id, reason) on f.org_id = o.id
        where not o.id = any(?::uuid[])
        on conflict (org_id) do update set last_cleanup_at = coalesce(excluded.last_cleanup_at, r.last_cleanup_at),
          last_failure = excluded.last_failure, last_failure_at = excluded.last_failure_at`,
        [[...failures.keys()], [...failures.values()], [...left]],
      );
    });
  }
}
