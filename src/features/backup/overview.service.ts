import { z } from 'zod';
import { clock, DAY_MS } from '../../clock.ts';
import type { Context } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/statement.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { findDevice } from '../devices/index.ts';
import { assertOrganizationAccess } from '../organizations/index.ts';
import { BackupConfig } from './config.model.ts';
import { addChainEnds } from './database-chain-state.ts';
import { BackupJob } from './job.model.ts';
import {
  countEndangered,
  countRisks,
  type CurrentFigures,
  currentSql,
  type Endangered,
  type FactsOf,
  type Figures,
  longestAgo,
  lowestScores,
  readCloudConfigs,
  readCloudSums,
  type ReadinessSource,
  readStatusRow,
  readTotals,
  readUsageDays,
  selectDeviceFacts,
  SHOWN,
  summaryOf,
  upsertReadiness,
} from './overview.queries.ts';
import {
  type HealthQuery,
  HIGH_READINESS,
  type OverviewQuery,
  type ReadinessQuery,
  type UsageQuery,
} from './overview.schema.ts';
import { DeviceReadiness } from './protection.model.ts';
import { DeviceFacts } from './protection.ts';
import { readinessOf } from './readiness.ts';
import { nextSlot } from './schedule.ts';

const Rows = z.array(DeviceFacts);

/** The protection of devices. Devices that are not backed up are left out of a page. */
export async function readDeviceFacts(tx: Tx, wanted: FactsOf): Promise<DeviceFacts[]> {
  const devices = Rows.parse(await selectDeviceFacts(tx, wanted));
  await addChainEnds(tx, devices);
  return devices;
}

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
  await upsertReadiness(tx, computedAsJson(facts));
}

interface Wanted {
  orgId?: string | undefined;
  deviceId?: string | undefined;
  refresh?: boolean | undefined;
}

/** SQL of the figures that the caller may see: those computed for this request, and otherwise the stored ones. */
async function currentFigures(ctx: Context, { orgId, deviceId, refresh }: Wanted): Promise<CurrentFigures> {
  if (orgId !== undefined) await assertOrganizationAccess(ctx, orgId);
  if (deviceId !== undefined) await findDevice(ctx, deviceId);
  const filter = { orgId: orgId ?? null, deviceId: deviceId ?? null };
  const facts =
    refresh === true ? await readDeviceFacts(ctx.tx, { deviceIds: await longestAgo(ctx, filter) }) : [];
  return { sql: currentSql(ctx), bindings: { ...filter, computed: computedAsJson(facts) } };
}

const toReadinessResponse = (figures: Figures) => ({
  deviceId: figures.deviceId,
  orgId: figures.orgId,
  readinessScore: figures.score,
  estimatedRtoMinutes: figures.rtoMinutes,
  estimatedRpoMinutes: figures.rpoMinutes,
  riskFactors: figures.risks,
  calculatedAt: figures.calculatedAt,
});

export async function readReadiness(ctx: Context, query: ReadinessQuery, cloudReadiness: ReadinessSource) {
  const current = await currentFigures(ctx, query);
  const summary = await summaryOf(ctx.tx, current);
  const devices = await lowestScores(ctx.tx, current);
  const cloudConfigs =
    query.deviceId === undefined
      ? await readCloudConfigs(ctx, cloudReadiness, { orgId: query.orgId, which: 'all', limit: SHOWN })
      : [];
  return { data: { summary, devices: devices.map(toReadinessResponse), cloudConfigs } };
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
  const current = await currentFigures(ctx, query);
  const counts = await countEndangered(ctx.tx, current);
  const risks = await countRisks(ctx.tx, current);
  const cloud = await readCloudSums(ctx, cloudReadiness, query.orgId);
  return { data: { status: healthOf(counts, cloud), ...counts, risks, cloud } } as const;
}

const LATEST_JOBS = 5;
const ATTENTION = 20;

export async function readDashboard(ctx: Context, { orgId }: OverviewQuery, cloudReadiness: ReadinessSource) {
  if (orgId !== undefined) await assertOrganizationAccess(ctx, orgId);
  const totals = await readTotals(ctx, orgId);
  const ofOrganization = orgId === undefined ? {} : { org_id: orgId };
  const latestJobs = await BackupJob.query(ctx.tx)
    .whereRaw(inTenant(ctx.caller, 'backup_jobs.org_id'))
    .where(ofOrganization)
    .orderBy('id', 'desc')
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
      attentionItems: attention.map(toReadinessResponse),
    },
  };
}

export async function readStatus(ctx: Context, deviceId: string) {
  const device = await findDevice(ctx, deviceId);
  const row = await readStatusRow(ctx.tx, device.id);
  const ofDevice = () => BackupJob.query(ctx.tx).where('device_id', device.id).orderBy('id', 'desc').first();
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

/** The ends of the last days (UTC), as they were recorded every night, and today as it is now. */
export async function readUsage(ctx: Context, { days, orgId }: UsageQuery) {
  if (orgId !== undefined) await assertOrganizationAccess(ctx, orgId);
  const rows = await readUsageDays(ctx, { days, orgId });
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
