import { clock, DAY_MS } from '../../clock.ts';
import type { DeviceHub } from '../../hub/index.ts';
import type { Context, DetachedContext } from '../../platform/context.ts';
import { AppError, invalid, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { newId } from '../../platform/ids.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import type { DatabaseBackupType } from '../../protocol/index.ts';
import { BackupRepository } from '../backup-store/index.ts';
import { cancelServerCommand } from '../commands/index.ts';
import { commandTargets, findDevice } from '../devices/index.ts';
import { assertManageable, assertOrganizationAccess } from '../organizations/index.ts';
import { BackupConfig } from './config.model.ts';
import { assertCanWork } from './device-requests.ts';
import { cancelJobNow } from './job-settle.ts';
import { BackupJob } from './job.model.ts';
import { visibleJobs } from './job.queries.ts';
import type { JobQuery, RunBackup, WaitingFor } from './job.schema.ts';
import type { ServerEngine } from './repository-access.ts';
import { mapEngineErrors } from './repository-readers.ts';
import { HAND_OVER } from './scheduler.ts';
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
  jobs: Jobs;
  backupEngine: ServerEngine;
}

/** How long a backup that a person has started waits for its device. */
const MANUAL_WAIT_MS = 7 * 86_400_000;

export async function listJobs(ctx: Context, query: JobQuery, hub: DeviceHub) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  if (query.deviceId !== undefined) await findDevice(ctx, query.deviceId);
  const { orgId, deviceId, configId, status, date, from, to } = query;
  const found = visibleJobs(ctx)
    .where(omitUndefined({ org_id: orgId, device_id: deviceId, config_id: configId, status }))
    .orderBy([
      { column: 'backup_jobs.created_at', order: 'desc' },
      { column: 'backup_jobs.id', order: 'desc' },
    ])
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
  const needsEngine = await ctx.withTenant(async (tenant) => {
    const [device] = await commandTargets(tenant, [deviceId]);
    if (device === undefined) throw notFound('Device');
    const { id, provider } = await configFor(tenant, device.orgId, configId);
    if (provider !== 'server') return false;
    const repository = await BackupRepository.query(tenant.tx).findOne({
      device_id: deviceId,
      config_id: id,
    });
    return repository?.initializedAt == null;
  });
  if (needsEngine) await mapEngineErrors(() => backupEngine.open());
}

/** Adds a backup of a device, which begins at once, or when the device returns. */
export async function runBackup(
  ctx: Context,
  deviceId: string,
  { configId, backupType }: RunBackup,
  { hub, jobs }: Omit<JobParts, 'backupEngine'>,
  sources: BackupSources | null = null,
) {
  const [device] = await commandTargets(ctx, [deviceId]);
  if (device === undefined) throw notFound('Device');
  await assertManageable(ctx, device.orgId);
  const config = await configFor(ctx, device.orgId, configId);
  const work = SOURCE_WORK[config.sources.kind];
  assertCanWork(hub, device, { type: work.command, what: 'make such backups' });
  if (!config.enabled) throw new AppError('conflict', 'The backup configuration is not enabled.');
  if (!work.systems(config.sources).includes(device.osType)) {
    throw new AppError('conflict', work.refusal(device.osType));
  }
  const inFlight = await BackupJob.query(ctx.tx)
    .where({ device_id: deviceId, config_id: config.id })
    .whereNull('finished_at')
    .select('id')
    .first();
  if (inFlight !== undefined) {
    throw new AppError('conflict', 'A backup of this device with this configuration is in flight.', {
      details: { jobId: inFlight.id },
    });
  }
  if (backupType !== undefined) await assertType(ctx, { deviceId, config, wanted: backupType });
  const id = newId();
  await BackupJob.query(ctx.tx).insert({
    id,
    orgId: device.orgId,
    deviceId,
    configId: config.id,
    type: 'manual',
    wantedType: backupType ?? null,
    sources,
    expiresAt: new Date(clock.now() + MANUAL_WAIT_MS),
    createdBy: ctx.caller.userId,
  });
  await jobs.enqueue(ctx.tx, HAND_OVER, {});
  return readJob(ctx, id, hub);
}

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
  const configs = BackupConfig.query(ctx.tx).where('org_id', orgId).forShare();
  if (configId !== undefined) {
    const config = await configs.findById(configId);
    if (config === undefined) {
      throw invalid('body.configId', 'must be a backup configuration of the organization of the device');
    }
    return config;
  }
  const [first, second] = await configs.orderBy([{ column: 'is_default', order: 'desc' }, 'id']).limit(2);
  if (first === undefined) throw new AppError('conflict', 'The organization has no backup configuration.');
  if (!first.isDefault && second !== undefined) {
    throw invalid('body.configId', 'is required: no configuration of the organization is the default');
  }
  return first;
}

/**
 * Cancels a job. One that has not begun ends at once; a device that has begun stops, and reports how far it came. What it
 * has sent stays in the repository, and the next backup uses it.
 */
export async function cancelJob(ctx: Context, id: string, hub: DeviceHub) {
  await readJob(ctx, id, hub);
  const { orgId, commandId } = await BackupJob.query(ctx.tx).findById(id).throwIfNotFound();
  await assertManageable(ctx, orgId);
  // The command is changed before the job, as when its device reports: otherwise both could wait for each other.
  const request = commandId === null ? undefined : await cancelServerCommand(ctx.tx, commandId, hub);
  const job = await BackupJob.query(ctx.tx).findById(id).forUpdate().throwIfNotFound();
  if (job.finishedAt !== null) {
    throw new AppError('conflict', `The backup has already ended: ${job.status}.`);
  }
  if (job.commandId !== commandId) {
    throw new AppError('conflict', 'The backup is just being given to its device. Try again.');
  }
  const { status, cancelRequestedAt } = job;
  if (request === undefined || request.hasEnded) await cancelJobNow(ctx.tx, job);
  else await job.$query(ctx.tx).patch({ cancelRequestedAt: job.cancelRequestedAt ?? clock.date() });
  ctx.recordChange(
    { status, cancelRequestedAt },
    { status: job.status, cancelRequestedAt: job.cancelRequestedAt },
  );
  if (request !== undefined) ctx.afterCommit(request.announce);
  return readJob(ctx, id, hub);
}
