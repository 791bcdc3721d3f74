import type { Context } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/statement.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { HIGH_READINESS, type UsageQuery } from './overview.schema.ts';
import type { DeviceReadiness } from './protection.model.ts';
import type { RiskSeverity } from './readiness.ts';

interface Totals {
  configs: number;
  jobs: number;
  snapshots: number;
  completed: number;
  failed: number;
  partial: number;
  running: number;
  queued: number;
  cancelled: number;
  totalBytes: string;
  devices: number;
  protectedDevices: number;
}

/**
 * SQL: whether a device is protected by a repository: it has a snapshot and has passed its last integrity verification.
 * @param at  SQL for an earlier time at which it was, as far as that is still recorded
 */
export const isProtectedSql = (r: string, at?: string): string => {
  const [wasRemoved, wasThere, wasFinished] =
    at === undefined
      ? ['false', 'true', 'true']
      : [`s.removed_at >= ${at}`, `s.received_at < ${at}`, `v.finished_at < ${at}`];
  return `exists (select from backup_snapshots s where s.repository_id = ${r}.id and ${wasThere}
    and (s.removed_at is null or ${wasRemoved}))
  and (select v.status from backup_verifications v where v.repository_id = ${r}.id and v.verification_type = 'integrity'
    and v.finished_at is not null and v.error_code is null and ${wasFinished} order by v.id desc limit 1) = 'passed'`;
};

interface StatusRow {
  timezone: string;
  configs: string[];
  isProtected: boolean;
  lastSuccessAt: Date | null;
  lastVerifiedAt: Date | null;
}

interface UsageRow {
  day: string;
  provider: string;
  bytes: string;
}

/** SQL: the rows of a table that the caller may see, of the organization `:orgId` if that is given. */
const visibleOf = (ctx: Pick<Context, 'caller'>, t: string) =>
  `${inTenant(ctx.caller, `${t}.org_id`)} and (cast(:orgId as uuid) is null or ${t}.org_id = cast(:orgId as uuid))`;

export async function readTotals(ctx: Context, orgId: string | undefined): Promise<Totals> {
  const mine = (t: string) => visibleOf(ctx, t);
  const { rows } = await ctx.tx.raw<{ rows: Totals[] }>(
    `with recent as (
      select j.status, count(*)::integer as n from backup_jobs j
      where ${mine('j')} and j.created_at > now() - interval '24 hours' group by 1),
    repositories as (select r.id, r.device_id, r.stored_bytes from backup_repositories r where ${mine('r')})
    select (select count(*)::integer from backup_configs c where ${mine('c')}) as configs,
      (select count(*)::integer from backup_job_facts j where ${mine('j')}) as jobs,
      (select count(*)::integer from backup_snapshots s
        where ${mine('s')} and s.removed_at is null and s.copy_of is null) as snapshots,
      ${['completed', 'failed', 'partial', 'running', 'cancelled'].map((status) => `coalesce((select n from recent where status = '${status}'), 0) as ${status}`).join(', ')},
      coalesce((select n from recent where status = 'pending'), 0) as queued,
      (select coalesce(sum(stored_bytes), 0) from repositories) as "totalBytes",
      (select count(distinct device_id)::integer from repositories) as devices,
      (select count(distinct device_id)::integer from repositories r where ${isProtectedSql('r')}) as "protectedDevices"`,
    { orgId: orgId ?? null },
  );
  const [totals] = rows;
  if (totals === undefined) throw new Error('the sums of backups are missing');
  return totals;
}

export async function readStatusRow(tx: Tx, deviceId: string): Promise<StatusRow> {
  const { rows } = await tx.raw<{ rows: StatusRow[] }>(
    `select s.timezone,
      coalesce((select array_agg(r.config_id) from backup_repositories r
        where r.org_id = d.org_id and r.device_id = d.id and r.config_id is not null), '{}') as configs,
      exists (select from backup_repositories r where r.org_id = d.org_id and r.device_id = d.id
        and ${isProtectedSql('r')}) as "isProtected",
      (select max(b.received_at) from backup_snapshots b
        where b.device_id = d.id and b.copy_of is null) as "lastSuccessAt",
      (select max(v.finished_at) from backup_verifications v
        where v.org_id = d.org_id and v.device_id = d.id and v.status = 'passed') as "lastVerifiedAt"
    from devices d join sites s on s.id = d.site_id where d.id = ?`,
    [deviceId],
  );
  const [row] = rows;
  if (row === undefined) throw new Error('the device has no site');
  return row;
}

export async function readUsageDays(ctx: Context, { days, orgId }: UsageQuery): Promise<UsageRow[]> {
  const mine = (t: string) => visibleOf(ctx, t);
  const { rows } = await ctx.tx.raw<{ rows: UsageRow[] }>(
    `select to_char(u.day, 'YYYY-MM-DD') as day, u.provider, sum(u.bytes) as bytes from backup_usage_days u
    where ${mine('u')} and u.day < (now() at time zone 'UTC')::date
      and u.day > (now() at time zone 'UTC')::date - cast(:days as integer)
    group by 1, 2
    union all
    select to_char(now() at time zone 'UTC', 'YYYY-MM-DD'), r.provider, sum(r.stored_bytes)
    from backup_repositories r where ${mine('r')} group by 1, 2`,
    { orgId: orgId ?? null, days },
  );
  return rows;
}

interface CloudSums {
  configs: number;
  protected: number;
  failing: number;
  late: number;
  unprotected: number;
  critical: number;
  atRisk: number;
}

interface CloudFigures {
  configId: string;
  orgId: string;
  name: string;
  readinessScore: number;
  estimatedRpoMinutes: number | null;
  riskFactors: { code: string; severity: RiskSeverity; message: string }[];
  calculatedAt: Date;
}

/** SQL of the configurations that the caller may see, as `c`. */
const visible = ({ caller }: Pick<Context, 'caller'>, { rows }: ReadinessSource) =>
  `from (${rows}) c where ${inTenant(caller, 'c.org_id')}
    and (cast(:orgId as uuid) is null or c.org_id = cast(:orgId as uuid))`;

const NEEDS_ATTENTION = '(c.is_failing or c.is_late or c.is_unprotected)';

export async function readCloudSums(
  ctx: Context,
  source: ReadinessSource,
  orgId: string | undefined,
): Promise<CloudSums> {
  const { rows } = await ctx.tx.raw<{ rows: [CloudSums] }>(
    `select count(*)::integer as configs, (count(*) filter (where not ${NEEDS_ATTENTION}))::integer as protected,
      (count(*) filter (where c.is_failing))::integer as failing, (count(*) filter (where c.is_late))::integer as late,
      (count(*) filter (where c.is_unprotected))::integer as unprotected,
      (count(*) filter (where c.risks @> '[{"severity":"critical"}]'))::integer as critical,
      (count(*) filter (where c.score < ${HIGH_READINESS}))::integer as "atRisk"
    ${visible(ctx, source)}`,
    { orgId: orgId ?? null },
  );
  return rows[0];
}

/** Reads the configurations with the lowest scores. */
export async function readCloudConfigs(
  ctx: Context,
  source: ReadinessSource,
  { orgId, which, limit }: { orgId: string | undefined; which: 'all' | 'attention'; limit: number },
): Promise<CloudFigures[]> {
  const { rows } = await ctx.tx.raw<{ rows: CloudFigures[] }>(
    `select c.id as "configId", c.org_id as "orgId", c.name, c.score as "readinessScore",
      c.rpo_minutes as "estimatedRpoMinutes", c.risks as "riskFactors", c.calculated_at as "calculatedAt"
    ${visible(ctx, source)} ${which === 'attention' ? `and ${NEEDS_ATTENTION}` : ''}
    order by c.score, c.id limit :limit`,
    { orgId: orgId ?? null, limit },
  );
  return rows;
}

/** Backups without a device, which belong to a feature that builds on this one. */
export interface ReadinessSource {
  /**
   * A `select` of `id`, `org_id` and `name` of each configuration, with `score`, `rpo_minutes`, `risks` and
   * `calculated_at` as they are of devices, and `is_failing`, `is_late` and `is_unprotected`.
   */
  rows: string;
}

/** Which devices: those named, or a page of all that are backed up and that the transaction sees. */
export type FactsOf = { deviceIds: readonly string[] } | { after: string; limit: number };

const ms = (time: string) => `extract(epoch from ${time}) * 1000`;

/** Enough to know what is usual. */
const SNAPSHOTS = 11;

const RESTORES = 5;

const PROOF = (type: string) => `(
  select jsonb_build_object('status', v.status, 'at', ${ms('v.finished_at')}) from backup_verifications v
  where v.repository_id = r.id and v.verification_type = '${type}' and v.finished_at is not null
    and v.error_code is null
  order by v.id desc limit 1)`;

/** Sizes of logs and differential backups say nothing about those before, nor about how long a restore takes. */
const IS_WHOLE = `coalesce(s.details ->> 'backupType', 'full') = 'full'`;

/** The consistency of a snapshot: of several machines, the worst one counts. */
const CONSISTENCY = `case when s.details -> 'machines' @> '[{"consistency":"none"}]' then 'none'
  else s.details ->> 'consistency' end`;

const PROTECTIONS = `(
  select coalesce(jsonb_agg(jsonb_build_object(
    'repositoryId', r.id, 'configId', c.id, 'configName', c.name, 'provider', r.provider,
    'frequency', case when c.enabled then c.schedule ->> 'frequency' end,
    'windowStart', c.schedule ->> 'windowStart', 'windowEnd', c.schedule ->> 'windowEnd',
    'since', ${ms('greatest(c.scheduled_since, r.created_at)')},
    'snapshots', (
      select coalesce(jsonb_agg(jsonb_build_object('id', s.id, 'receivedAt', ${ms('s.received_at')},
        'sizeBytes', case when ${IS_WHOLE} then s.size_bytes end, 'fileCount', s.file_count,
        'changedFiles', case when ${IS_WHOLE} then s.changed_files end,
        'receivedBytes', case when ${IS_WHOLE} then s.received_bytes end,
        'isPartial', s.is_partial,
        'lacksFiles', s.lacks_files, 'emptySources', s.empty_sources, 'consistency', ${CONSISTENCY}) order by s.received_at desc, s.id desc), '[]')
      from (select * from backup_snapshots s where s.device_id = d.id and s.repository_id = r.id
        and s.removed_at is null order by s.received_at desc, s.id desc limit ${SNAPSHOTS}) s),
    'lastJob', (
      select jsonb_build_object('status', j.status, 'errorCode', j.error_code, 'errorMessage', j.error_message,
        'finishedAt', ${ms('j.finished_at')})
      from backup_jobs j where j.device_id = d.id and j.config_id = c.id
        and j.status in ('completed', 'partial', 'failed') order by j.id desc limit 1),
    'failuresOfWeek', (
      select count(*) from work j join backup_job_facts f on f.id = j.id
      where j.org_id = d.org_id and j.device_id = d.id and j.kind = 'backup' and j.status = 'failed'
        and j.created_at > now() - interval '7 days' and f.config_id = c.id),
    'integrity', ${PROOF('integrity')},
    'testRestore', ${PROOF('test_restore')},
    'keyRotatesSince', (select ${ms('k.rotated_at')} from backup_encryption_keys k
      where k.id = r.encryption_key_id and k.status = 'rotating'),
    'hasDatabases', exists (select from backup_snapshots s where s.repository_id = r.id and s.removed_at is null
      and s.backup_type = 'database')
  ) order by c.name, c.id), '[]')
  from backup_repositories r join backup_configs c on c.id = r.config_id
  where r.org_id = d.org_id and r.device_id = d.id)`;

/** Restores of the snapshots of the device, to whichever device. */
const REAL_RESTORES = `
  select 1 as rank, t.finished_at as at, t.restored_bytes as bytes,
    extract(epoch from t.finished_at - t.started_at) as seconds
  from backup_snapshots s join backup_restores t on t.snapshot_id = s.id
  where s.device_id = d.id and t.status in ('completed', 'partial') and not t.dry_run
    and t.restored_bytes > 0 and t.finished_at > t.started_at`;

const TEST_RESTORES = `
  select 2, v.finished_at, v.size_bytes, v.restore_seconds from backup_verifications v
  where v.org_id = d.org_id and v.device_id = d.id and v.verification_type = 'test_restore' and v.finished_at is not null
    and v.restore_seconds > 0 and v.size_bytes > 0`;

const RESTORES_OF_DEVICE = `(
  select coalesce(jsonb_agg(jsonb_build_object('bytes', bytes, 'seconds', seconds)), '[]') from (
    select *, min(rank) over () as best from (${REAL_RESTORES} union all ${TEST_RESTORES}) measured
    order by rank, at desc limit ${RESTORES}) newest
  where rank = best)`;

const SLA_TARGETS = `(
  select jsonb_build_object('rpoMinutes', min(c.rpo_target_minutes), 'rtoMinutes', min(c.rto_target_minutes))
  from backup_sla_configs c where c.org_id = d.org_id and c.is_active
    and (d.id = any(c.target_devices)
      or exists (select from device_group_members m
        where m.org_id = d.org_id and m.device_id = d.id and m.group_id = any(c.target_groups))
      or c.target_devices = '{}' and c.target_groups = '{}'))`;

export async function selectDeviceFacts(tx: Tx, wanted: FactsOf): Promise<unknown> {
  const [which, bindings, limit] =
    'deviceIds' in wanted
      ? ['d.id = any(:deviceIds::uuid[])', { deviceIds: [...wanted.deviceIds] }, '']
      : [
          'd.id > :after and exists (select from backup_repositories r where r.org_id = d.org_id and r.device_id = d.id)',
          { after: wanted.after },
          `limit ${wanted.limit}`,
        ];
  const { rows } = await tx.raw<{ rows: unknown }>(
    `select d.id as "deviceId", d.org_id as "orgId",
      coalesce(nullif(d.display_name, ''), d.hostname) as "deviceName",
      ${PROTECTIONS} as protections, ${RESTORES_OF_DEVICE} as restores, ${SLA_TARGETS} as "slaTargets"
    from devices d where ${which} order by d.id ${limit}`,
    bindings,
  );
  return rows;
}

/** A request computes so many devices anew at most, those first that were not computed for the longest time. */
const REFRESH_MAX = 500;

export const SHOWN = 500;

const LOW = 70;

const COMPUTED = `select w."deviceId" as device_id, w."orgId" as org_id, w.score, w."rtoMinutes" as rto_minutes,
    w."rpoMinutes" as rpo_minutes, w.risks, now() as calculated_at
  from jsonb_to_recordset(cast(:computed as jsonb)) as w ("deviceId" uuid, "orgId" uuid, score smallint,
    "rtoMinutes" integer, "rpoMinutes" integer, risks jsonb)`;

/** @param computed  an array, as JSON */
export async function upsertReadiness(tx: Tx, computed: string): Promise<void> {
  await tx.raw(
    `insert into backup_readiness (device_id, org_id, score, rto_minutes, rpo_minutes, risks, calculated_at)
    select device_id, org_id, score, rto_minutes, rpo_minutes, risks, calculated_at from (${COMPUTED}) computed
    on conflict (device_id) do update set org_id = excluded.org_id, score = excluded.score,
      rto_minutes = excluded.rto_minutes, rpo_minutes = excluded.rpo_minutes, risks = excluded.risks,
      calculated_at = excluded.calculated_at`,
    { computed },
  );
}

export const currentSql = (ctx: Pick<Context, 'caller'>) => `with computed as (${COMPUTED}), current as (
    select * from computed
    union all
    select b.device_id, b.org_id, b.score, b.rto_minutes, b.rpo_minutes, b.risks, b.calculated_at
    from backup_readiness b where ${inTenant(ctx.caller, 'b.org_id')}
      and (cast(:orgId as uuid) is null or b.org_id = cast(:orgId as uuid))
      and (cast(:deviceId as uuid) is null or b.device_id = cast(:deviceId as uuid))
      and b.device_id not in (select device_id from computed))`;

export async function longestAgo(
  ctx: Context,
  filter: { orgId: string | null; deviceId: string | null },
): Promise<string[]> {
  const { rows } = await ctx.tx.raw<{ rows: { id: string }[] }>(
    `select d.id from devices d left join backup_readiness b on b.device_id = d.id
    where ${inTenant(ctx.caller, 'd.org_id')}
      and exists (select from backup_repositories r where r.org_id = d.org_id and r.device_id = d.id)
      and (cast(:orgId as uuid) is null or d.org_id = cast(:orgId as uuid))
      and (cast(:deviceId as uuid) is null or d.id = cast(:deviceId as uuid))
    order by b.calculated_at nulls first, d.id limit ${REFRESH_MAX}`,
    filter,
  );
  return rows.map(({ id }) => id);
}

export type Figures = Pick<
  DeviceReadiness,
  'deviceId' | 'orgId' | 'score' | 'rtoMinutes' | 'rpoMinutes' | 'risks' | 'calculatedAt'
>;

interface Summary {
  devices: number;
  averageScore: number | null;
  lowReadiness: number;
  highReadiness: number;
}

export interface Endangered {
  critical: number;
  atRisk: number;
}

/** The start of a statement that reads `current`, the figures that the caller may see, and its bindings. */
export interface CurrentFigures {
  sql: string;
  bindings: Record<string, string | null>;
}

export async function summaryOf(tx: Tx, { sql, bindings }: CurrentFigures): Promise<Summary> {
  const { rows } = await tx.raw<{ rows: [Summary] }>(
    `${sql} select count(*)::integer as devices, round(avg(score), 1)::float as "averageScore",
      (count(*) filter (where score < ${LOW}))::integer as "lowReadiness",
      (count(*) filter (where score >= ${HIGH_READINESS}))::integer as "highReadiness" from current`,
    bindings,
  );
  return rows[0];
}

export async function lowestScores(tx: Tx, { sql, bindings }: CurrentFigures): Promise<Figures[]> {
  const { rows } = await tx.raw<{ rows: Figures[] }>(
    `${sql} select device_id as "deviceId", org_id as "orgId", score, rto_minutes as "rtoMinutes",
      rpo_minutes as "rpoMinutes", risks, calculated_at as "calculatedAt"
    from current order by score, device_id limit ${SHOWN}`,
    bindings,
  );
  return rows;
}

export async function countEndangered(
  tx: Tx,
  { sql, bindings }: CurrentFigures,
): Promise<Endangered & { devices: number }> {
  const { rows } = await tx.raw<{ rows: [Endangered & { devices: number }] }>(
    `${sql} select count(*)::integer as devices,
      (count(*) filter (where risks @> '[{"severity":"critical"}]'))::integer as critical,
      (count(*) filter (where score < ${HIGH_READINESS}))::integer as "atRisk" from current`,
    bindings,
  );
  return rows[0];
}

/** How many devices have each risk. */
export async function countRisks(
  tx: Tx,
  { sql, bindings }: CurrentFigures,
): Promise<{ code: string; devices: number }[]> {
  const { rows } = await tx.raw<{ rows: { code: string; devices: number }[] }>(
    `${sql} select risk ->> 'code' as code, count(*)::integer as devices
    from current cross join jsonb_array_elements(risks) risk group by 1 order by 2 desc, 1`,
    bindings,
  );
  return rows;
}
