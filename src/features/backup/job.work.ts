import { z } from 'zod';
import { clock, HOUR_MS } from '../../clock.ts';
import { EngineError } from '../../engine/index.ts';
import type { DeviceHub } from '../../hub/index.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import { eachByItself } from '../../platform/concurrency.ts';
import { defineJob, type JobRun } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import type { Logger } from '../../platform/logger.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { BACKUP_TIMEOUT_SECONDS } from '../../protocol/index.ts';
import { BackupRepository, createRepository, endCredential } from '../backup-store/index.ts';
import { type AddedCommand, addServerCommand, announceCommands } from '../commands/index.ts';
import { DeviceModel } from '../devices/index.ts';
import type { WorkEngine } from '../work/index.ts';
import { BackupConfig } from './config.model.ts';
import { secretOf } from './config.service.ts';
import { failJob, settleJob } from './job-settle.ts';
import { BackupJob } from './job.model.ts';
import { dueJobs, expireJobs } from './job.queries.ts';
import { EncryptionKey } from './key.model.ts';
import { REINDEX, reindex } from './maintenance.work.ts';
import {
  makeRepository,
  type OwnAccessParts,
  accessOfDevice,
  type RepositoryAccessParts,
} from './repository-access.ts';
import { closedWindows, HAND_OVER, runSchedules } from './scheduler.ts';
import { BackupSnapshot } from './snapshot.model.ts';
import { isBackupCommand, SOURCE_WORK } from './source-kinds.ts';

const PREPARE = defineJob({
  name: 'backup.prepare',
  input: z.object({ jobId: z.uuid() }),
  attempts: 4,
  concurrency: 2,
});

/** Added by a trigger of the database with the end of a command. */
const SETTLE = defineJob({
  name: 'backup.settle',
  input: z.object({ jobId: z.uuid(), commandId: z.uuid() }),
  attempts: 20,
  concurrency: 4,
});

/** Whether the database adds a job with the end of a command of this type. The job runner is not notified of that. */
export const addsJobAtEnd = (type: string): boolean => isBackupCommand(type);

/** Adds the jobs that the schedules of configurations ask for. */
const SCHEDULE = defineJob({ name: 'backup.schedule', input: z.object({}), attempts: 1, inCluster: 1 });

export interface BackgroundParts extends RepositoryAccessParts, OwnAccessParts {
  jobs: Jobs;
  hub: DeviceHub;
  work: WorkEngine;
  log: Logger;
}

/** The background work of backup jobs (docs/decisions/backup-jobs.md). */
export function addBackupJobs(parts: BackgroundParts): void {
  const { jobs, work, db, log } = parts;
  jobs.handle(SCHEDULE, async ({ signal }) => {
    const added = await runSchedules({ db, log }, clock.date(), signal);
    if (added > 0) await jobs.enqueue(undefined, HAND_OVER, {});
  });
  jobs.schedule(SCHEDULE, { cron: '* * * * *', timeZone: 'UTC' }, {});
  jobs.handle(HAND_OVER, () => handOverDue(parts));
  jobs.schedule(HAND_OVER, { cron: '* * * * *', timeZone: 'UTC' }, {});
  jobs.handle(PREPARE, (run) => prepare(parts, run));
  jobs.handle(REINDEX, async ({ input, signal }) => {
    try {
      return await reindex(parts, input.repositoryId, signal);
    } finally {
      // The next backup of the repository may have waited for this, even if it has failed.
      await jobs.enqueue(undefined, HAND_OVER, {});
    }
  });
  jobs.handle(SETTLE, async ({ input }) => {
    const settled = await withSystem(db, 'end a backup job with its command', async (tx) => {
      const end = await settleJob(tx, work, input);
      // Another job may have the place now.
      if (end === 'ended') {
        await enqueueHandOver(jobs, tx);
        await enqueueReindex(jobs, tx, input);
      }
      return end;
    });
    if (settled === 'open') throw new Error('the command of the backup job has not ended');
  });
}

/** The next backup finds the data of one without a snapshot, if the index names it. */
async function enqueueReindex(
  jobs: Jobs,
  tx: Tx,
  { jobId, commandId }: { jobId: string; commandId: string },
): Promise<void> {
  const job = await BackupJob.query(tx).findById(jobId).whereIn('status', ['failed', 'cancelled']);
  const repositoryId = job?.repositoryId ?? null;
  if (repositoryId !== null) await jobs.enqueue(tx, REINDEX, { repositoryId }, { key: commandId });
}

const GATHER_MS = 5000;

/** The ends of many jobs within some seconds add one round. */
async function enqueueHandOver(jobs: Jobs, tx: Tx): Promise<void> {
  const next = (Math.floor(clock.now() / GATHER_MS) + 1) * GATHER_MS;
  await jobs.enqueue(tx, HAND_OVER, {}, { key: `after ${next}`, delayMs: next - clock.now() });
}

async function handOverDue({ db, jobs, hub, secrets, log }: BackgroundParts): Promise<void> {
  await withSystem(db, 'end backup jobs that could not begin in time', expireJobs);
  const due = await withSystem(db, 'find the backup jobs that are due', async (tx) =>
    dueJobs(tx, await closedWindows(tx, clock.date())),
  );
  const commands: AddedCommand[] = [];
  const begin = async ({ id: jobId, canBackUp, isInitialized }: (typeof due)[number]) => {
    if (canBackUp && !isInitialized) {
      // If all attempts of an hour have failed, the next hour brings new ones.
      const key = `${jobId} ${Math.floor(clock.now() / HOUR_MS)}`;
      await jobs.enqueue(undefined, PREPARE, { jobId }, { key });
      return;
    }
    const outcome = await withSystem(db, 'give a backup job to its device', async (tx) =>
      canBackUp ? handOver(tx, jobId, secrets) : failIncapable(tx, jobId),
    );
    if (outcome === 'failed') log.info({ backupJobId: jobId }, 'backup.job_refused');
    else if (outcome !== 'waits') commands.push(outcome.command);
  };
  await eachByItself(due, begin, (error, { id }) =>
    log.error({ err: error, backupJobId: id }, 'backup.job_not_handed_over'),
  );
  if (commands.length > 0) announceCommands(hub, commands);
}

async function failIncapable(tx: Tx, jobId: string): Promise<'failed'> {
  const message = 'The agent on this device cannot make backups. Update it.';
  await failOpenJob(tx, jobId, 'CAPABILITY_MISSING', message);
  return 'failed';
}

async function failOpenJob(tx: Tx, jobId: string, code: string, message: string): Promise<void> {
  const job = await BackupJob.query(tx).findById(jobId).whereNull('finished_at').forUpdate();
  if (job !== undefined) await failJob(tx, job, code, message);
}

/** Makes the repository, and then gives the job to its device. What does not pass with time fails the job. */
async function prepare(
  parts: BackgroundParts,
  { input: { jobId }, log }: JobRun<{ jobId: string }>,
): Promise<void> {
  const { db, jobs } = parts;
  try {
    await prepareRepository(parts, jobId);
  } catch (error) {
    if (!(error instanceof EngineError)) throw error;
    log.warn({ err: error, backupJobId: jobId, detail: error.detail }, 'backup.prepare_failed');
    if (error.code !== 'WRONG_KEY') throw error;
    const { code, message } = error;
    await withSystem(db, 'end a backup job whose repository cannot be made', (tx) =>
      failOpenJob(tx, jobId, `SERVER_${code}`, `On the server: ${message}`),
    );
    return;
  }
  await jobs.enqueue(undefined, HAND_OVER, {});
}

// Hands a backup job to its device, as a command of the ledger.

/** How long the command waits to be sent. A job whose command was not sent waits for its device again. */
const TTL_SECONDS = 900;
/** The lifetime of the credential: some time more than the device has, for the result, which ends it. */
const LIFETIME_SECONDS = TTL_SECONDS + BACKUP_TIMEOUT_SECONDS + 1800;

/** The outcome of a job that was due: given to the device, ended, or left for the next time. */
type HandOver = { command: AddedCommand } | 'failed' | 'waits';

async function handOver(tx: Tx, jobId: string, secrets: Encryptor): Promise<HandOver> {
  const job = await BackupJob.query(tx)
    .findById(jobId)
    .whereNull('command_id')
    .whereNull('finished_at')
    .forUpdate()
    .skipLocked();
  if (job === undefined) return 'waits';
  const config =
    job.configId === null ? undefined : await BackupConfig.query(tx).findById(job.configId).forShare();
  const device = await DeviceModel.query(tx).findById(job.deviceId);
  if (device === undefined || config?.orgId !== job.orgId) {
    await failJob(tx, job, 'CONFIG_MISSING', 'The configuration of the backup was deleted.');
    return 'failed';
  }
  const sources = job.sources ?? config.sources;
  const work = SOURCE_WORK[sources.kind];
  if (!work.systems(sources).includes(device.osType)) {
    await failJob(tx, job, 'NO_SOURCES', work.refusal(device.osType));
    return 'failed';
  }
  const repository = await BackupRepository.query(tx).findOne({
    device_id: job.deviceId,
    config_id: config.id,
  });
  if (repository === undefined || repository.initializedAt === null) return 'waits';
  const access = await accessOfDevice(
    tx,
    {
      repository,
      role: 'device',
      jobId: job.id,
      expiresAt: new Date(clock.now() + LIFETIME_SECONDS * 1000),
      elsewhere: async () => ({
        details: config.details,
        secret: secretOf(secrets, config),
        isNew: (await BackupSnapshot.query(tx).findOne({ repository_id: repository.id })) === undefined,
      }),
    },
    secrets,
  );
  if (access === undefined) return 'waits';
  const shared = {
    jobId: job.id,
    repository: access.repository,
    host: device.hostname,
    ...omitUndefined(config.limits),
    timeoutSeconds: BACKUP_TIMEOUT_SECONDS,
  };
  const handed = await work.toCommand(tx, {
    sources,
    repositoryId: repository.id,
    device,
    wantedType: job.wantedType,
    shared,
  });
  if ('refusal' in handed) {
    const { code, message } = handed.refusal;
    if (access.credentialId !== null) await endCredential(tx, access.credentialId);
    await failJob(tx, job, code, message);
    return 'failed';
  }
  const { chosen, ...order } = handed;
  const command = await addServerCommand(
    tx,
    { id: job.deviceId, orgId: job.orgId },
    {
      ...order,
      ttlSeconds: TTL_SECONDS,
      timeoutSeconds: BACKUP_TIMEOUT_SECONDS,
      secrets: { values: access.values, encryptor: secrets },
      createdBy: job.createdBy,
    },
  );
  await job.$query(tx).patch({
    commandId: command.id,
    credentialId: access.credentialId,
    repositoryId: repository.id,
    ...chosen,
  });
  return { command };
}

/**
 * Makes the repository of a job, which restic can open afterwards. The server does it for its own store, because a device
 * may write neither keys nor the configuration of a repository there; elsewhere the device does it with its first backup.
 */
async function prepareRepository(parts: OwnAccessParts, jobId: string): Promise<void> {
  const repository = await withSystem(parts.db, 'make the repository of a backup', (tx) =>
    repositoryOf(tx, jobId),
  );
  if (repository === undefined || repository.initializedAt !== null) return;
  const engineKeyId =
    repository.provider === 'server' ? await makeRepository(parts, repository, { jobId }) : null;
  await withSystem(parts.db, 'note that a repository can be opened', (tx) =>
    BackupRepository.query(tx)
      .findById(repository.id)
      .whereNull('initialized_at')
      .patch({ engineKeyId, initializedAt: clock.date() }),
  );
}

async function repositoryOf(tx: Tx, jobId: string): Promise<BackupRepository | undefined> {
  const job = await BackupJob.query(tx).findById(jobId).whereNull('finished_at').forNoKeyUpdate();
  if (job === undefined || job.configId === null) return undefined;
  const { orgId, deviceId, configId } = job;
  const known = await BackupRepository.query(tx).findOne({ device_id: deviceId, config_id: configId });
  if (known !== undefined) return known;
  const config = await BackupConfig.query(tx).findById(configId);
  if (config === undefined) return undefined;
  const key = await EncryptionKey.query(tx).findById(config.encryptionKeyId).throwIfNotFound();
  return createRepository(tx, {
    orgId,
    deviceId,
    configId,
    provider: config.provider,
    encryptionKeyId: key.id,
    keyVersion: key.version,
  });
}
