import { clock } from '../../../clock.ts';
import type { Context } from '../../../platform/context.ts';
import { inTenant } from '../../../platform/db/tenant-filter.ts';
import { findDevice } from '../../devices/index.ts';
import { assertOrganizationAccess } from '../../organizations/index.ts';
import { BackupConfig } from '../configs/config.model.ts';
import { nextSlot } from '../core/schedule.ts';
import { BackupJob } from '../jobs/job.model.ts';
import { readCloudConfigs, readCloudSums } from './cloud-overview.ts';
import { HIGH_READINESS, type OverviewQuery, type UsageQuery } from './overview.schema.ts';
import type { ReadinessSource } from './readiness-source.ts';
import { shownReadiness } from './readiness.service.ts';
import { DeviceReadiness } from './readiness.model.ts';

const LATEST_JOBS = 5;
const ATTENTION = 20;

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

/** A device is protected where a repository with a snapshot has passed its last integrity verification. */
const IS_PROTECTED = (r: string) => `exists (select from backup_snapshots s where s.repository_id = ${r}.id
    and s.removed_at is null)
  and (select v.status from backup_verifications v where v.repository_id = ${r}.id and v.verification_type = 'integrity'
    and v.finished_at is not null and v.error_code is null order by v.finished_at desc limit 1) = 'passed'`;

export async function readDashboard(ctx: Context, { orgId }: OverviewQuery, cloudReadiness: ReadinessSource) {
  if (orgId !== undefined) await assertOrganizationAccess(ctx, orgId);
  const mine = (t: string) =>
    `${inTenant(ctx.caller, `${t}.org_id`)} and (cast(:orgId as uuid) is null or ${t}.org_id = cast(:orgId as uuid))`;
  const { rows } = await ctx.tx.raw<{ rows: Totals[] }>(
    `with recent as (
      select j.status, count(*)::integer as n from backup_jobs j
      where ${mine('j')} and j.created_at > now() - interval '24 hours' group by 1),
    repositories as (select r.id, r.device_id, r.stored_bytes from backup_repositories r where ${mine('r')})
    select (select count(*)::integer from backup_configs c where ${mine('c')}) as configs,
      (select count(*)::integer from backup_jobs j where ${mine('j')}) as jobs,
      (select count(*)::integer from backup_snapshots s
        where ${mine('s')} and s.removed_at is null and s.copy_of is null) as snapshots,
      ${['completed', 'failed', 'partial', 'running', 'cancelled'].map((status) => `coalesce((select n from recent where status = '${status}'), 0) as ${status}`).join(', ')},
      coalesce((select n from recent where status = 'pending'), 0) as queued,
      (select coalesce(sum(stored_bytes), 0) from repositories) as "totalBytes",
      (select count(distinct device_id)::integer from repositories) as devices,
      (select count(distinct device_id)::integer from repositories r where ${IS_PROTECTED('r')}) as "protectedDevices"`,
    { orgId: orgId ?? null },
  );
  const [totals] = rows;
  if (totals === undefined) throw new Error('the sums of backups are missing');
  const ofOrganization = orgId === undefined ? {} : { org_id: orgId };
  const latestJobs = await BackupJob.query(ctx.tx)
    .whereRaw(inTenant(ctx.caller, 'backup_jobs.org_id'))
    .where(ofOrganization)
    .orderBy([
      { column: 'created_at', order: 'desc' },
      { column: 'id', order: 'desc' },
    ])
    .limit(LATEST_JOBS);
  const attention = await DeviceReadiness.query(ctx.tx)
    .whereRaw(inTenant(ctx.caller, 'backup_readiness.org_id'))
    .where(ofOrganization)
    .where('score', '<', HIGH_READINESS)
    .orderBy(['score', 'device_id'])
    .limit(ATTENTION);
  const cloud = await readCloudSums(ctx, cloudReadiness, orgId);
  const cloudAttention = await readCloudConfigs(ctx, cloudReadiness, {
    orgId,
    which: 'attention',
    limit: ATTENTION,
  });
  const { configs, jobs, snapshots, totalBytes, devices, protectedDevices, ...jobsLast24h } = totals;
  return {
    data: {
      totals: { configs, jobs, snapshots },
      jobsLast24h,
      storage: { totalBytes: Number(totalBytes), snapshots },
      coverage: { devices, protectedDevices },
      cloud: { ...cloud, attentionItems: cloudAttention },
      latestJobs,
      attentionItems: attention.map(shownReadiness),
    },
  };
}

interface StatusRow {
  timezone: string;
  configs: string[];
  isProtected: boolean;
  lastSuccessAt: Date | null;
  lastVerifiedAt: Date | null;
}

export async function readStatus(ctx: Context, deviceId: string) {
  const device = await findDevice(ctx, deviceId);
  const { rows } = await ctx.tx.raw<{ rows: StatusRow[] }>(
    `select s.timezone,
      coalesce((select array_agg(r.config_id) from backup_repositories r
        where r.org_id = d.org_id and r.device_id = d.id and r.config_id is not null), '{}') as configs,
      exists (select from backup_repositories r where r.org_id = d.org_id and r.device_id = d.id
        and ${IS_PROTECTED('r')}) as "isProtected",
      (select max(b.received_at) from backup_snapshots b
        where b.device_id = d.id and b.copy_of is null) as "lastSuccessAt",
      (select max(v.finished_at) from backup_verifications v
        where v.device_id = d.id and v.status = 'passed') as "lastVerifiedAt"
    from devices d join sites s on s.id = d.site_id where d.id = ?`,
    [device.id],
  );
  const [row] = rows;
  if (row === undefined) throw new Error('the device has no site');
  const ofDevice = () =>
    BackupJob.query(ctx.tx)
      .where('device_id', device.id)
      .orderBy([
        { column: 'created_at', order: 'desc' },
        { column: 'id', order: 'desc' },
      ])
      .first();
  const lastJob = (await ofDevice()) ?? null;
  const lastFailure = await ofDevice().where('status', 'failed');
  const configs = await BackupConfig.query(ctx.tx).whereIn('id', row.configs).where('enabled', true);
  const now = clock.date();
  const slots = configs.flatMap(({ schedule }) =>
    schedule === null ? [] : nextSlot(schedule, schedule.timezone ?? row.timezone, now),
  );
  return {
    data: {
      deviceId: device.id,
      protected: row.isProtected,
      configId: lastJob?.configId ?? configs[0]?.id ?? null,
      timezone: row.timezone,
      lastJob,
      lastSuccessAt: row.lastSuccessAt,
      lastFailureAt: lastFailure?.finishedAt ?? null,
      lastFailureError: lastFailure?.errorMessage ?? null,
      lastVerifiedAt: row.lastVerifiedAt,
      nextScheduledAt: slots.sort((a, b) => a.getTime() - b.getTime())[0] ?? null,
    },
  };
}

interface UsageRow {
  day: string;
  provider: string;
  bytes: string;
}

const DAY_MS = 86_400_000;

/** The ends of the last days (UTC), as they were recorded every night, and today as it is now. */
export async function readUsage(ctx: Context, { days, orgId }: UsageQuery) {
  if (orgId !== undefined) await assertOrganizationAccess(ctx, orgId);
  const mine = (t: string) =>
    `${inTenant(ctx.caller, `${t}.org_id`)} and (cast(:orgId as uuid) is null or ${t}.org_id = cast(:orgId as uuid))`;
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
  const today = clock.date().toISOString().slice(0, 10);
  const dates = Array.from({ length: days }, (_, ago) =>
    new Date(Date.parse(today) - (days - 1 - ago) * DAY_MS).toISOString().slice(0, 10),
  );
  const points = dates.map((day) => {
    const providers = rows
      .filter((row) => row.day === day)
      .map(({ provider, bytes }) => ({ provider, bytes: Number(bytes) }));
    return {
      timestamp: `${day}T00:00:00.000Z`,
      totalBytes: providers.reduce((sum, { bytes }) => sum + bytes, 0),
      providers,
    };
  });
  const providers = [...new Set(rows.map(({ provider }) => provider))].sort();
  return { data: { days, start: dates[0] ?? today, end: today, providers, points } };
}
