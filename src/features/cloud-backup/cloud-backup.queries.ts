import { clock } from '../../clock.ts';
import type { Context } from '../../platform/context.ts';
import { nameOrder, inTenant, containing } from '../../platform/db/statement.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import type { ReadinessSource, WorkSource } from '../backup/index.ts';
import { isManageableSql } from '../organizations/index.ts';
import { CloudConfig, CloudConnection, CloudJob, CloudItem } from './cloud-backup.model.ts';
import type { CloudJobStatus } from './config.schema.ts';
import type { KindName } from './item-kind.ts';
import type { ItemQuery } from './item.schema.ts';

type Reader = Pick<Context, 'tx' | 'caller'>;

/** The connections that the caller may see. */
export const accessibleConnections = (ctx: Reader) =>
  CloudConnection.query(ctx.tx).whereRaw(inTenant(ctx.caller, 'c2c_connections.org_id'));

export const accessibleConnectionsByName = (ctx: Reader) =>
  accessibleConnections(ctx).orderByRaw(`${nameOrder('display_name')}, id`);

/** The configurations that the caller may see. Those that are being removed are hidden. */
export const accessibleConfigs = (ctx: Reader) =>
  CloudConfig.query(ctx.tx).whereRaw(inTenant(ctx.caller, 'c2c_configs.org_id')).whereNull('removing_since');

export const accessibleConfigsByName = (ctx: Reader) =>
  accessibleConfigs(ctx).orderByRaw(`${nameOrder('name')}, id`);

/** The jobs that the caller may see. */
export const accessibleJobs = (ctx: Reader) =>
  CloudJob.query(ctx.tx).whereRaw(inTenant(ctx.caller, 'c2c_jobs.org_id'));

/** Items of configurations that are being removed are hidden with them. */
export const accessibleItems = (ctx: Pick<Context, 'tx' | 'caller'>) =>
  CloudItem.query(ctx.tx)
    .whereRaw(inTenant(ctx.caller, 'c2c_items.org_id'))
    .whereRaw(
      'not exists (select from c2c_configs c where c.id = c2c_items.config_id and c.removing_since is not null)',
    );

/** Whether configurations use the connection, including those that are being removed. */
export async function hasConfigs(
  tx: Tx,
  { id, orgId }: Pick<CloudConnection, 'id' | 'orgId'>,
): Promise<boolean> {
  const { rows } = await tx.raw<{ rows: object[] }>(
    'select from c2c_configs where org_id = ? and connection_id = ? limit 1',
    [orgId, id],
  );
  return rows.length > 0;
}

/** Adds a consent that expires after some minutes. */
export async function insertConsent(tx: Tx, consent: Record<string, string>, minutes: number): Promise<void> {
  await tx('c2c_consents').insert({
    ...consent,
    expires_at: tx.raw('now() + make_interval(mins => ?)', [minutes]),
  });
}

/** The consent of a state, unless it has expired. */
export const openConsent = (tx: Tx, stateHash: string) =>
  tx('c2c_consents').where('state_hash', stateHash).whereRaw('expires_at > now()');

interface LastRun {
  config_id: string;
  job_id: string;
  status: CloudJobStatus;
  created_at: Date;
  finished_at: Date | null;
}

/** The newest run of each configuration. */
export async function lastRunsOf(tx: Tx, configIds: readonly string[]): Promise<LastRun[]> {
  const { rows } = await tx.raw<{ rows: LastRun[] }>(
    `select c.id as config_id, j.id as job_id, j.status, j.created_at, j.finished_at
    from c2c_configs c cross join lateral (
      select * from c2c_jobs where org_id = c.org_id and config_id = c.id and type = 'backup'
      order by id desc limit 1) j
    where c.id = any(?)`,
    [[...configIds]],
  );
  return rows;
}

/** The users with items. Jumps in the index from one user to the next, because a user may have a million items. */
export async function usersWithItems(
  tx: Tx,
  configId: string,
  { pattern, limit }: { pattern: string; limit: number },
): Promise<{ userEmail: string }[]> {
  const { rows } = await tx.raw<{ rows: { userEmail: string }[] }>(
    `with recursive found as (
      (select user_id, user_email from c2c_items where config_id = :id order by user_id limit 1)
      union all
      select next.user_id, next.user_email from found cross join lateral (
        select user_id, user_email from c2c_items
        where config_id = :id and user_id > found.user_id order by user_id limit 1) next)
    select distinct user_email as "userEmail" from found
    where user_email ilike :pattern order by user_email limit :limit`,
    { id: configId, pattern, limit },
  );
  return rows;
}

/** The jobs of a configuration that have not ended. */
export const openJobsOf = (tx: Tx, { id, orgId }: Pick<CloudConfig, 'id' | 'orgId'>) =>
  CloudJob.query(tx).where({ org_id: orgId, config_id: id, finished_at: null });

/** Locks the configurations of active organizations whose run is due. */
export const lockDueConfigs = (tx: Tx, limit: number): PromiseLike<CloudConfig[]> =>
  CloudConfig.query(tx)
    .where('next_run_at', '<=', clock.date())
    .whereNull('removing_since')
    .whereRaw(`org_id in (select o.id from organizations o where ${isManageableSql('o')})`)
    .orderBy('next_run_at')
    .limit(limit)
    .forUpdate()
    .skipLocked();

interface FailedConfig {
  id: string;
  name: string;
  jobId: string;
  reason: string | null;
}

/** The configurations of an organization whose last run failed, the latest one first. A cancelled run does not count. */
export async function failedConfigs(tx: Tx, orgId: string): Promise<FailedConfig[]> {
  const { rows } = await tx.raw<{ rows: FailedConfig[] }>(
    `select c.id, c.name, j.id as "jobId", j.error_message as reason
    from c2c_configs c cross join lateral (
      select x.* from c2c_jobs x
      where x.org_id = c.org_id and x.config_id = c.id and x.type = 'backup'
        and x.status in ('completed', 'partial', 'failed')
      order by x.id desc limit 1) j
    where c.org_id = ? and c.removing_since is null and j.status = 'failed' order by j.finished_at desc`,
    [orgId],
  );
  return rows;
}

export interface OutcomeRow {
  user_email: string;
  kind: KindName;
  status: 'pending' | 'running' | 'completed' | 'partial' | 'skipped' | 'failed';
  items_new: string;
  items_updated: string;
  items_deleted: string;
  items_failed: string;
  bytes_transferred: string;
  error_code: string | null;
  error_message: string | null;
}

type RestoredRow = Pick<OutcomeRow, 'user_email' | 'kind' | 'error_code' | 'error_message'> & {
  item_id: string;
  name: string;
  status: 'pending' | 'restored' | 'present' | 'failed';
};

/** The outcomes of a job by user and kind, failures first, and their total number. */
export async function outcomesOf(tx: Tx, { id, orgId }: Pick<CloudJob, 'id' | 'orgId'>, limit: number) {
  const all = () => tx('c2c_outcomes').where({ job_id: id, org_id: orgId });
  const [counted] = await all().count<[{ count: string }]>('*');
  const outcomes = await all()
    .orderByRaw(`status in ('failed', 'partial') desc, user_email, kind`)
    .limit(limit)
    .select<OutcomeRow[]>('*');
  return { total: counted?.count ?? 0, outcomes };
}

/** The items of a restore, failures first. */
export async function restoredItemsOf(
  tx: Tx,
  { id, orgId }: Pick<CloudJob, 'id' | 'orgId'>,
): Promise<RestoredRow[]> {
  const { rows } = await tx.raw<{ rows: RestoredRow[] }>(
    `select r.item_id, r.status, r.error_code, r.error_message, i.kind, i.name, i.user_email
    from c2c_restored_items r join c2c_items i on i.org_id = r.org_id and i.id = r.item_id
    where r.org_id = ? and r.job_id = ? order by r.error_code is null, i.user_email, r.item_id`,
    [orgId, id],
  );
  return rows;
}

/** Ends an outcome of a run by what it has counted. */
export async function endOutcome(tx: Tx, key: Record<string, string>): Promise<void> {
  await tx('c2c_outcomes')
    .where(key)
    .update({ status: tx.raw(`case when items_failed > 0 then 'partial' else 'completed' end`) });
}

/** The numbers of outcomes of a run by their status. */
export async function countOutcomes(
  tx: Tx,
  jobId: string,
): Promise<{ whole: number; partial: number; failed: number }> {
  const { rows } = await tx.raw<{ rows: [{ whole: number; partial: number; failed: number }] }>(
    `select count(*) filter (where status = 'completed')::int as whole,
      count(*) filter (where status = 'partial')::int as partial,
      count(*) filter (where status = 'failed')::int as failed
    from c2c_outcomes where job_id = ?`,
    [jobId],
  );
  return rows[0];
}

export interface RestoredItem {
  id: string;
  orgId: string;
  kind: KindName;
  name: string;
  parentPath: string;
  userEmail: string;
  metadata: Record<string, unknown>;
  versionId: string;
  bytes: number;
  sha256: Buffer;
}

/** The next items that a restore has not settled. */
export async function pendingRestores(tx: Tx, jobId: string, limit: number): Promise<RestoredItem[]> {
  const { rows } = await tx.raw<{ rows: RestoredItem[] }>(
    `select i.id, i.kind, i.name, i.parent_path as "parentPath", i.user_email as "userEmail", i.metadata,
      r.version_id as "versionId", v.bytes::float8 as bytes, v.sha256, v.org_id as "orgId"
    from c2c_restored_items r join c2c_items i on i.org_id = r.org_id and i.id = r.item_id
    join c2c_versions v on v.org_id = r.org_id and v.id = r.version_id
    where r.job_id = ? and r.status = 'pending' order by r.item_id limit ?`,
    [jobId, limit],
  );
  return rows;
}

/** Records the outcome of an item of a restore, and counts it. */
export async function settleRestore(
  tx: Tx,
  jobId: string,
  itemId: string,
  outcome: Record<string, string>,
): Promise<void> {
  await tx('c2c_restored_items').where({ job_id: jobId, item_id: itemId }).update(outcome);
  await tx('c2c_job_facts')
    .where('id', jobId)
    .update({
      parts_done: tx.raw('parts_done + 1'),
      items_processed: tx.raw('items_processed + 1'),
      items_new: tx.raw('items_new + ?', [outcome['status'] === 'restored' ? 1 : 0]),
      items_failed: tx.raw('items_failed + ?', [outcome['status'] === 'failed' ? 1 : 0]),
    });
}

/** The bytes that the stores of the tenant, or of one of its organizations, hold. */
export async function storedBytes(ctx: Reader, orgId: string | undefined): Promise<number> {
  const [sum] = await ctx
    .tx('c2c_stores')
    .whereRaw(inTenant(ctx.caller, 'c2c_stores.org_id'))
    .where(omitUndefined({ org_id: orgId }))
    .sum<{ bytes: string | null }[]>({ bytes: 'stored_bytes' });
  return Number(sum?.bytes ?? 0);
}

/** For the overview of backups, which cannot depend on this feature. */
export const CLOUD_READINESS: ReadinessSource = {
  rows: `select c.id, c.org_id, c.name, r.score, r.rpo_minutes, r.risks, r.is_failing, r.is_late, r.is_unprotected,
      r.calculated_at
    from c2c_readiness r join c2c_configs c on c.org_id = r.org_id and c.id = r.config_id
    where c.removing_since is null`,
};

const ms = (time: string) => `extract(epoch from ${time})::float8 * 1000`;

const ENDED_RUNS = `from c2c_jobs j where j.org_id = c.org_id and j.config_id = c.id and j.type = 'backup'
      and j.status in ('completed', 'partial', 'failed')`;
/** A configuration has one run at a time, so they end in the order in which they begin. */
const NEWEST_FIRST = 'order by j.id desc limit 1';

const FACTS = `select c.id as "configId", c.org_id as "orgId", c.name,
    case when c.enabled then c.schedule ->> 'frequency' end as frequency,
    c.schedule ->> 'windowStart' as "windowStart", c.schedule ->> 'windowEnd' as "windowEnd",
    ${ms('coalesce(c.scheduled_since, c.created_at)')} as since,
    -- The release before this one, which may still be running, does not write the column.
    ${ms(`greatest(c.last_success_at, (select j.finished_at ${ENDED_RUNS} and j.status <> 'failed' ${NEWEST_FIRST}))`)}
      as "lastSuccessAt",
    (select jsonb_build_object('status', j.status, 'errorCode', j.error_code) ${ENDED_RUNS} ${NEWEST_FIRST}) as "lastRun",
    -- Of an hourly schedule a week has 168.
    (select count(*)::int from (select j.status, j.finished_at ${ENDED_RUNS} order by j.id desc limit 200) n
      where n.status = 'failed' and n.finished_at > now() - interval '7 days') as "failuresOfWeek",
    k.last_error_code is not null as "isConnectionFailing"
  from c2c_configs c join c2c_connections k on k.org_id = c.org_id and k.id = c.connection_id
  where c.removing_since is null`;

/** The selected configurations: all of an organization, which has at most a hundred, or one page. */
export type Which = { orgId: string } | { after: string; limit: number };

/** The facts of configurations, as rows of `CloudFacts`. */
export async function readinessFacts(tx: Tx, which: Which): Promise<unknown> {
  const { rows } =
    'orgId' in which
      ? await tx.raw<{ rows: unknown }>(`${FACTS} and c.org_id = ?`, [which.orgId])
      : await tx.raw<{ rows: unknown }>(`${FACTS} and c.id > ? order by c.id limit ?`, [
          which.after,
          which.limit,
        ]);
  return rows;
}

/** Stores the computed readiness of configurations. */
export async function writeReadiness(tx: Tx, computed: readonly object[]): Promise<void> {
  await tx.raw(
    `insert into c2c_readiness (config_id, org_id, score, rpo_minutes, risks, is_failing, is_late, is_unprotected, calculated_at)
    select w."configId", w."orgId", w.score, w."rpoMinutes", w.risks, w."isFailing", w."isLate", w."isUnprotected", now()
    from jsonb_to_recordset(cast(? as jsonb)) as w ("configId" uuid, "orgId" uuid, score smallint, "rpoMinutes" integer,
      risks jsonb, "isFailing" boolean, "isLate" boolean, "isUnprotected" boolean)
    order by 1
    on conflict (config_id) do update set score = excluded.score, rpo_minutes = excluded.rpo_minutes,
      risks = excluded.risks, is_failing = excluded.is_failing, is_late = excluded.is_late,
      is_unprotected = excluded.is_unprotected, calculated_at = excluded.calculated_at`,
    [JSON.stringify(computed)],
  );
}

/**
 * The ids of the first items that contain every word. For each configuration, Postgres reads the index
 * `c2c_items_search` in the order of the result until there are enough: a frequent word costs nothing, and a rare one
 * the index entries of these configurations. Selecting other columns than those of the index would read the items
 * themselves, which are many times as large.
 */
export async function matchingItemIds(
  { caller, tx }: Pick<Context, 'caller' | 'tx'>,
  {
    search,
    orgId,
    configId,
    userEmail,
    itemType,
    isDeleted,
    after,
    limit,
  }: Omit<ItemQuery, 'search'> & { search: readonly string[] },
): Promise<string[]> {
  const words = search.map((word, place) => [`word${place}`, containing(word)] as const);
  const { rows } = await tx.raw<{ rows: { id: string }[] }>(
    `select found.id from c2c_configs c cross join lateral (
      select i.id from c2c_items i where i.org_id = c.org_id and i.config_id = c.id
        ${words.map(([name]) => `and i.search_text like lower(:${name})`).join(' ')}
        and (cast(:after as uuid) is null or i.id > cast(:after as uuid))
        and (cast(:userEmail as text) is null or i.user_email = :userEmail)
        and (cast(:itemType as text) is null or i.kind = :itemType)
        and (cast(:isDeleted as boolean) is null or (i.deleted_at is not null) = cast(:isDeleted as boolean))
      order by i.id limit :limit) found
    where ${inTenant(caller, 'c.org_id')} and c.removing_since is null
      and (cast(:orgId as uuid) is null or c.org_id = cast(:orgId as uuid))
      and (cast(:configId as uuid) is null or c.id = cast(:configId as uuid))
    order by found.id limit :limit`,
    {
      ...Object.fromEntries(words),
      after: after ?? null,
      userEmail: userEmail ?? null,
      itemType: itemType ?? null,
      isDeleted: isDeleted ?? null,
      orgId: orgId ?? null,
      configId: configId ?? null,
      limit,
    },
  );
  return rows.map(({ id }) => id);
}

/** Runs and restores on dashboards. They count items. */
export const CLOUD_WORK: WorkSource = {
  kind: 'cloud_backup',
  permission: 'backup:read',
  rows: `select w.id, w.org_id, null::uuid as device_id, null::uuid as command_id, w.status as state, w.phase,
      case when w.parts_total > 0 then trunc(100.0 * least(w.parts_done, w.parts_total) / w.parts_total, 1)::real end as percent,
      w.items_processed as done, null::bigint as total, null::bigint as rate, null::bigint as eta_seconds,
      null::bigint as files_done, null::bigint as files_total, null as path, w.error_message as message,
      null::timestamptz as stalled_since, w.created_at, w.updated_at, w.finished_at
    from c2c_jobs w`,
};
