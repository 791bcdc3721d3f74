import { clock } from '../../../clock.ts';
import type { Context } from '../../../platform/context.ts';
import { inTenant } from '../../../platform/db/tenant-filter.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { findDevice } from '../../devices/index.ts';
import { assertOrganizationAccess } from '../../organizations/index.ts';
import type { DeviceFacts } from '../core/protection.ts';
import { readinessOf } from '../core/readiness.ts';
import { readCloudConfigs, readCloudSums } from './cloud-overview.ts';
import { readDeviceFacts } from './device-facts.ts';
import { HIGH_READINESS, type HealthQuery, type ReadinessQuery } from './overview.schema.ts';
import type { ReadinessSource } from './readiness-source.ts';
import type { DeviceReadiness } from './readiness.model.ts';

/** A request computes so many devices anew at most, those first that were not computed for the longest time. */
const REFRESH_MAX = 500;
const SHOWN = 500;
const LOW = 70;

const COMPUTED = `select w."deviceId" as device_id, w."orgId" as org_id, w.score, w."rtoMinutes" as rto_minutes,
    w."rpoMinutes" as rpo_minutes, w.risks, now() as calculated_at
  from jsonb_to_recordset(cast(:computed as jsonb)) as w ("deviceId" uuid, "orgId" uuid, score smallint,
    "rtoMinutes" integer, "rpoMinutes" integer, risks jsonb)`;

const computedAsJson = (facts: readonly DeviceFacts[]): string => {
  const now = clock.date();
  return JSON.stringify(
    facts.map((device) => ({
      deviceId: device.deviceId,
      orgId: device.orgId,
      ...readinessOf(device, { now }),
    })),
  );
};

/** Keeps what follows from the facts, for lists and sums. */
export async function storeReadiness(tx: Tx, facts: readonly DeviceFacts[]): Promise<void> {
  await tx.raw(
    `insert into backup_readiness (device_id, org_id, score, rto_minutes, rpo_minutes, risks, calculated_at)
    select device_id, org_id, score, rto_minutes, rpo_minutes, risks, calculated_at from (${COMPUTED}) computed
    on conflict (device_id) do update set org_id = excluded.org_id, score = excluded.score,
      rto_minutes = excluded.rto_minutes, rpo_minutes = excluded.rpo_minutes, risks = excluded.risks,
      calculated_at = excluded.calculated_at`,
    { computed: computedAsJson(facts) },
  );
}

interface Wanted {
  orgId?: string | undefined;
  deviceId?: string | undefined;
  refresh?: boolean | undefined;
}

/** SQL of the figures that the caller may see: those computed for this request, and otherwise the stored ones. */
async function currentFigures(ctx: Context, { orgId, deviceId, refresh }: Wanted) {
  if (orgId !== undefined) await assertOrganizationAccess(ctx, orgId);
  if (deviceId !== undefined) await findDevice(ctx, deviceId);
  const filter = { orgId: orgId ?? null, deviceId: deviceId ?? null };
  const facts =
    refresh === true ? await readDeviceFacts(ctx.tx, { deviceIds: await longestAgo(ctx, filter) }) : [];
  const sql = `with computed as (${COMPUTED}), current as (
    select * from computed
    union all
    select b.device_id, b.org_id, b.score, b.rto_minutes, b.rpo_minutes, b.risks, b.calculated_at
    from backup_readiness b where ${inTenant(ctx.caller, 'b.org_id')}
      and (cast(:orgId as uuid) is null or b.org_id = cast(:orgId as uuid))
      and (cast(:deviceId as uuid) is null or b.device_id = cast(:deviceId as uuid))
      and b.device_id not in (select device_id from computed))`;
  return { sql, bindings: { ...filter, computed: computedAsJson(facts) } };
}

async function longestAgo(
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

type Figures = Pick<
  DeviceReadiness,
  'deviceId' | 'orgId' | 'score' | 'rtoMinutes' | 'rpoMinutes' | 'risks' | 'calculatedAt'
>;

export const shownReadiness = (figures: Figures) => ({
  deviceId: figures.deviceId,
  orgId: figures.orgId,
  readinessScore: figures.score,
  estimatedRtoMinutes: figures.rtoMinutes,
  estimatedRpoMinutes: figures.rpoMinutes,
  riskFactors: figures.risks,
  calculatedAt: figures.calculatedAt,
});

interface Summary {
  devices: number;
  averageScore: number | null;
  lowReadiness: number;
  highReadiness: number;
}

export async function readReadiness(ctx: Context, query: ReadinessQuery, cloudReadiness: ReadinessSource) {
  const { sql, bindings } = await currentFigures(ctx, query);
  const sums = await ctx.tx.raw<{ rows: [Summary] }>(
    `${sql} select count(*)::integer as devices, round(avg(score), 1)::float as "averageScore",
      (count(*) filter (where score < ${LOW}))::integer as "lowReadiness",
      (count(*) filter (where score >= ${HIGH_READINESS}))::integer as "highReadiness" from current`,
    bindings,
  );
  const devices = await ctx.tx.raw<{ rows: Figures[] }>(
    `${sql} select device_id as "deviceId", org_id as "orgId", score, rto_minutes as "rtoMinutes",
      rpo_minutes as "rpoMinutes", risks, calculated_at as "calculatedAt"
    from current order by score, device_id limit ${SHOWN}`,
    bindings,
  );
  const cloudConfigs =
    query.deviceId === undefined
      ? await readCloudConfigs(ctx, cloudReadiness, { orgId: query.orgId, which: 'all', limit: SHOWN })
      : [];
  return { data: { summary: sums.rows[0], devices: devices.rows.map(shownReadiness), cloudConfigs } };
}

interface Endangered {
  critical: number;
  atRisk: number;
}

/**
 * - `critical`: a device or a cloud configuration has a critical risk, such as no backup, damaged data or a sign of
 *   ransomware.
 * - `degraded`: none has, but one has a score below 85.
 * - `healthy`: otherwise.
 */
const healthOf = (...all: readonly Endangered[]) => {
  if (all.some(({ critical }) => critical > 0)) return 'critical';
  return all.some(({ atRisk }) => atRisk > 0) ? 'degraded' : 'healthy';
};

export async function readHealth(ctx: Context, query: HealthQuery, cloudReadiness: ReadinessSource) {
  const { sql, bindings } = await currentFigures(ctx, query);
  const sums = await ctx.tx.raw<{ rows: [Endangered & { devices: number }] }>(
    `${sql} select count(*)::integer as devices,
      (count(*) filter (where risks @> '[{"severity":"critical"}]'))::integer as critical,
      (count(*) filter (where score < ${HIGH_READINESS}))::integer as "atRisk" from current`,
    bindings,
  );
  const risks = await ctx.tx.raw<{ rows: { code: string; devices: number }[] }>(
    `${sql} select risk ->> 'code' as code, count(*)::integer as devices
    from current cross join jsonb_array_elements(risks) risk group by 1 order by 2 desc, 1`,
    bindings,
  );
  const [counts] = sums.rows;
  const cloud = await readCloudSums(ctx, cloudReadiness, query.orgId);
  return { data: { status: healthOf(counts, cloud), ...counts, risks: risks.rows, cloud } } as const;
}
