import { clock, DAY_MS } from '../../clock.ts';
import type { DeviceHub } from '../../hub/index.ts';
import type { Context, DetachedContext } from '../../platform/context.ts';
import { AppError, invalid, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import type { DatabaseBackupType } from '../../protocol/index.ts';
import { BackupRepository } from '../backup-store/index.ts';
import { type CommandTarget, commandTargets, findDevice } from '../devices/index.ts';
import { assertManageable, assertOrganizationAccess } from '../organizations/index.ts';
import type { WorkEngine } from '../work/index.ts';
import { addJob, findOpenJob } from './add-job.ts';
import { BackupConfig } from './config.model.ts';
import { assertCanWork } from './device-requests.ts';
import type { BackupJob } from './job.model.ts';
import { visibleJobs } from './job.queries.ts';
import type { JobQuery, RunBackup, WaitingFor } from './job.schema.ts';
import type { ServerEngine } from './repository-access.ts';
import { mapEngineErrors } from './repository-readers.ts';
import { SOURCE_WORK } from './source-kinds.ts';
import type { BackupSources } from './source.schema.ts';

function toAnswer(job: BackupJob, hub: Pick<DeviceHub, 'live'>, now = clock.date()) {
  const { phase, percent, doneBytes, totalBytes, doneFiles, totalFiles, currentPath, lastProgressAt } = job;
  const { rate, etaSeconds, stalledSince } = job;
  const { errorCode, errorMessage, unreadableCount, unreadable, leftOut, ...rest } = job;
  return {
    ...rest,
    waitingFor: waitingFor(job, hub, now),
    progress: {
      phase,
      percent,
      doneBytes,
      totalBytes,
      doneFiles,
      totalFiles,
      rate,
      etaSeconds,
      currentPath,
      at: lastProgressAt,
      stalledSince,
    },
    error: errorCode === null ? null : { code: errorCode, message: errorMessage ?? '' },
    unreadable: { count: unreadableCount, paths: unreadable },
    leftOut: leftOut ?? { count: 0, paths: [] },
  };
}

function waitingFor(
  { status, deviceId, dueAt, commandId, isConnected }: BackupJob,
  hub: Pick<DeviceHub, 'live'>,
  now: Date,
): WaitingFor | null {
  if (status !== 'pending') return null;
  if (!(hub.live(deviceId)?.isConnected ?? isConnected ?? false)) return 'device';
  if (commandId !== null) return null;
  return dueAt > now ? 'due_time' : 'turn';
}

export interface JobParts {
  hub: DeviceHub;
  work: WorkEngine;
  backupEngine: ServerEngine;
}

export async function listJobs(ctx: Context, query: JobQuery, hub: DeviceHub) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  if (query.deviceId !== undefined) await findDevice(ctx, query.deviceId);
  const { orgId, deviceId, configId, status, date, from, to } = query;
  const found = visibleJobs(ctx)
    .where(omitUndefined({ org_id: orgId, device_id: deviceId, config_id: configId, status }))
    .orderBy('backup_jobs.id', 'desc')
    .page(query.page - 1, query.limit);
  if (date !== undefined) {
    const begin = new Date(date).setUTCHours(0, 0, 0, 0);
    void found.where('created_at', '>=', new Date(begin)).where('created_at', '<', new Date(begin + DAY_MS));
  }
  if (from !== undefined) void found.where('created_at', '>=', from);
  if (to !== undefined) void found.where('created_at', '<=', to);
  const { data, pagination } = toPage(query, await found);
  return { data: data.map((job) => toAnswer(job, hub)), pagination };
}

export async function readJob(ctx: Context, id: string, hub: DeviceHub) {
  const job = await visibleJobs(ctx).findById(id);
  if (job === undefined) throw notFound('Backup job');
  return toAnswer(job, hub);
}

/** A first backup is not begun into a repository of the store that the server could neither verify nor prune. */
export async function prepareRun(
  ctx: DetachedContext,
  deviceId: string,
  { configId }: RunBackup,
  { backupEngine }: JobParts,
): Promise<void> {
  const needEngine = await ctx.withTenant(async (tenant) => {
    const [device] = await commandTargets(tenant, [deviceId]);
    if (device === undefined) throw notFound('Device');
    return withoutRepository(tenant, [{ device, config: await configFor(tenant, device.orgId, configId) }]);
  });
  if (needEngine.size > 0) await mapEngineErrors(() => backupEngine.open());
}

/** The devices for whose first backup the server has to make a repository of its store. */
export async function withoutRepository(
  { tx }: Pick<Context, 'tx'>,
  pairs: readonly { device: CommandTarget; config: BackupConfig }[],
): Promise<Set<string>> {
  const inStore = pairs.filter(({ config }) => config.provider === 'server');
  const deviceIds = inStore.map(({ device }) => device.id);
  const made = await BackupRepository.query(tx)
    .whereRaw('(device_id, config_id) in (select * from unnest(?::uuid[], ?::uuid[]))', [
      deviceIds,
      inStore.map(({ config }) => config.id),
    ])
    .whereNotNull('initialized_at')
    .select('device_id');
  const without = new Set(deviceIds);
  for (const { deviceId } of made) without.delete(deviceId);
  return without;
}

/** Adds a backup of a device, which begins at once, or when the device returns. */
export async function runBackup(
  ctx: Context,
  deviceId: string,
  { configId, backupType }: RunBackup,
  { hub, work }: Omit<JobParts, 'backupEngine'>,
  sources: BackupSources | null = null,
) {
  const [device] = await commandTargets(ctx, [deviceId]);
  if (device === undefined) throw notFound('Device');
  await assertManageable(ctx, device.orgId);
  const config = await configFor(ctx, device.orgId, configId);
  assertCanBackUp(hub, device, config);
  const pair = { id: config.id, deviceId };
  const openId = await findOpenJob(ctx.tx, pair);
  if (openId !== undefined) throw inFlight(openId);
  if (backupType !== undefined) await assertType(ctx, { deviceId, config, wanted: backupType });
  const wanted = { device, config, sources, wantedType: backupType ?? null, createdBy: ctx.caller.userId };
  const id = await addJob(ctx.tx, work, wanted);
  // Another one was added meanwhile.
  if (id === undefined) throw inFlight(await findOpenJob(ctx.tx, pair));
  return readJob(ctx, id, hub);
}

/** Throws if a device cannot be backed up by a configuration of its organization. */
export function assertCanBackUp(hub: DeviceHub, device: CommandTarget, config: BackupConfig): void {
  const source = SOURCE_WORK[config.sources.kind];
  assertCanWork(hub, device, { type: source.command, what: 'make such backups' });
  if (!config.enabled) throw new AppError('conflict', 'The backup configuration is not enabled.');
  if (!source.systems(config.sources).includes(device.osType)) {
    throw new AppError('conflict', source.refusal(device.osType));
  }
}

export const inFlight = (jobId: string | undefined) =>
  new AppError('conflict', 'A backup of this device with this configuration is in flight.', {
    details: { jobId },
  });

/** Throws if a backup of this type cannot be made now. When it is given to its device, that is decided again. */
async function assertType(
  { tx }: Context,
  { deviceId, config, wanted }: { deviceId: string; config: BackupConfig; wanted: DatabaseBackupType },
): Promise<void> {
  const { typeRefusal } = SOURCE_WORK[config.sources.kind];
  if (typeRefusal === undefined) {
    throw invalid('body.backupType', 'must be left out: only backups of databases have types');
  }
  const repository = await BackupRepository.query(tx).findOne({ device_id: deviceId, config_id: config.id });
  const refusal = await typeRefusal(tx, { sources: config.sources, repositoryId: repository?.id, wanted });
  if (refusal !== undefined) throw new AppError('conflict', refusal);
}

async function configFor(ctx: Context, orgId: string, configId: string | undefined): Promise<BackupConfig> {
  if (configId !== undefined) {
    const config = await BackupConfig.query(ctx.tx).where('org_id', orgId).forShare().findById(configId);
    if (config === undefined) {
      throw invalid('body.configId', 'must be a backup configuration of the organization of the device');
    }
    return config;
  }
  const config = (await defaultConfigs(ctx, [orgId])).get(orgId);
  if (config === undefined) throw withoutConfig();
  if (config === 'unclear') {
    throw invalid('body.configId', 'is required: no configuration of the organization is the default');
  }
  return config;
}

export const withoutConfig = () => new AppError('conflict', 'The organization has no backup configuration.');

/**
 * By organization, the configuration by which a device is backed up if none is named: the default, else the only one.
 * It is unclear if there are several and none is the default; an organization without any is left out.
 */
export async function defaultConfigs(
  { tx }: Pick<Context, 'tx'>,
  orgIds: readonly string[],
): Promise<Map<string, BackupConfig | 'unclear'>> {
  const found = await BackupConfig.query(tx)
    .whereRaw(FIRST_TWO, [[...orgIds]])
    .orderBy('id')
    .forShare();
  const byOrganization = new Map<string, BackupConfig | 'unclear'>();
  for (const config of found) {
    const other = byOrganization.get(config.orgId);
    if (other === undefined || config.isDefault) byOrganization.set(config.orgId, config);
    else if (other === 'unclear' || !other.isDefault) byOrganization.set(config.orgId, 'unclear');
  }
  return byOrganization;
}

/** The default comes first. */
const FIRST_TWO = `id in (select c.id from unnest(?::uuid[]) as o (id) cross join lateral (
  select id from backup_configs where org_id = o.id order by is_default desc, id limit 2) as c)`;

/**
 * Cancels a job. One that has not begun ends at once; a device that has begun stops, and reports how far it came. What it
 * has sent stays in the repository, and the next backup uses it.
 */
export async function cancelJob(ctx: Context, id: string, { hub, work }: Pick<JobParts, 'hub' | 'work'>) {
  const job = await readJob(ctx, id, hub);
  await assertManageable(ctx, job.orgId);
  if (job.finishedAt !== null) {
    throw new AppError('conflict', `The backup has already ended: ${job.status}.`);
  }
  await work.cancel(ctx, id);
  const cancelled = await readJob(ctx, id, hub);
  ctx.recordChange(
    { status: job.status, cancelRequestedAt: job.cancelRequestedAt },
    { status: cancelled.status, cancelRequestedAt: cancelled.cancelRequestedAt },
  );
  return cancelled;
}
