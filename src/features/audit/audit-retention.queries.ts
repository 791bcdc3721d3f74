import { chainLock } from './chain-writer.queries.ts';
import { DEFAULT_RETENTION_DAYS, type RetentionChange } from './audit.schema.ts';
import { ZERO_UUID } from './chain.ts';
import { inTenant } from '../../platform/db/statement.ts';
import type { Context } from '../../platform/context.ts';
import type { Db } from '../../platform/db/pool.ts';
import type { Tx } from '../../platform/db/transaction.ts';

export async function oldestEntries(
  tx: Tx,
  chainId: string,
  before: Date,
  limit: number,
): Promise<{ first: number; through: number } | undefined> {
  const { rows } = await tx.raw<{ rows: { first: string | null; through: string | null }[] }>(
    `select min(seq) as first, max(seq) as through from (
      select seq, bool_and("timestamp" < ?) over (order by seq) as is_old
      from (select seq, "timestamp" from audit_logs where chain_id = ? order by seq limit ?) oldest
    ) prefix where is_old`,
    [before, chainId, limit],
  );
  const { first, through } = rows[0] ?? {};
  return first == null || through == null ? undefined : { first: Number(first), through: Number(through) };
}

/** Takes the lock of this session that keeps two servers from pruning at the same time. */
export async function tryPruningLock(session: Db): Promise<boolean> {
  const { rows } = await session.raw(
    `select pg_try_advisory_lock(hashtextextended('audit-prune', 0)) as got`,
  );
  return rows[0].got === true;
}

export interface DueChain {
  chainId: string;
  archives: boolean;
  before: Date;
}

/** The chains that have entries past their retention. */
export async function dueChains(tx: Tx): Promise<DueChain[]> {
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
}

/** Stores for each organization how the pruning of its chain has ended; not for those that were left unfinished. */
export async function recordPruning(
  tx: Tx,
  { failures, unfinished }: { failures: ReadonlyMap<string, string>; unfinished: readonly string[] },
): Promise<void> {
  await tx.raw(
    `insert into audit_retention_policies as r (org_id, last_cleanup_at, last_failure, last_failure_at)
        select o.id, case when f.reason is null then now() end, f.reason, case when f.reason is not null then now() end
        from organizations o left join unnest(?::uuid[], ?::text[]) as f (org_id, reason) on f.org_id = o.id
        where not o.id = any(?::uuid[])
        on conflict (org_id) do update set last_cleanup_at = coalesce(excluded.last_cleanup_at, r.last_cleanup_at),
          last_failure = excluded.last_failure, last_failure_at = excluded.last_failure_at`,
    [[...failures.keys()], [...failures.values()], [...unfinished]],
  );
}

export interface RetentionRow extends RetentionChange {
  name: string;
  lastCleanupAt: Date | null;
  failedAt: Date | null;
  failure: string | null;
}

export async function retentionOf(
  ctx: Pick<Context, 'tx' | 'caller'>,
  orgId: string,
): Promise<RetentionRow | undefined> {
  const { rows } = await ctx.tx.raw<{ rows: RetentionRow[] }>(
    `select o.name, coalesce(r.retention_days, ${DEFAULT_RETENTION_DAYS}) as "retentionDays",
      coalesce(r.archive_to_s3, false) as "archiveToS3", r.last_cleanup_at as "lastCleanupAt",
      r.last_failure_at as "failedAt", r.last_failure as failure
    from organizations o left join audit_retention_policies r on r.org_id = o.id
    where o.id = ? and o.deleted_at is null and ${inTenant(ctx.caller, 'o.id')}`,
    [orgId],
  );
  return rows[0];
}

export async function storeRetention(tx: Tx, orgId: string, change: RetentionChange): Promise<void> {
  await tx.raw(
    `insert into audit_retention_policies (org_id, retention_days, archive_to_s3) values (?, ?, ?)
    on conflict (org_id) do update set retention_days = excluded.retention_days,
      archive_to_s3 = excluded.archive_to_s3, updated_at = now()`,
    [orgId, change.retentionDays, change.archiveToS3],
  );
}

/** Waits until nothing is added to the chain, and keeps it so until the transaction ends. */
export async function lockChain(tx: Tx, chainId: string): Promise<void> {
  await tx.raw(`select pg_advisory_xact_lock(${chainLock('?::text')})`, [chainId]);
}
