import { z } from 'zod';
import { clock, MINUTE_MS } from '../../clock.ts';
import { EngineError } from '../../engine/index.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import { defineJob } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import type { Logger } from '../../platform/logger.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { BACKUP_TIMEOUT_SECONDS } from '../../protocol/index.ts';
import { BackupRepository, createRepository } from '../backup-store/index.ts';
import { type AddedCommand, addServerCommand } from '../commands/index.ts';
import { DeviceModel } from '../devices/index.ts';
import type { StepOutcome, WorkEnd, WorkEngine, WorkRun } from '../work/index.ts';
import { BACKUP } from './add-job.ts';
import { BackupConfig } from './config.model.ts';
import { secretOf } from './config.service.ts';
import { recordJob, recordLateJob, settleJob } from './job-settle.ts';
import { BackupJob, BackupJobFacts } from './job.model.ts';
import { readJobReadiness } from './job.queries.ts';
import { EncryptionKey } from './key.model.ts';
import { REINDEX, reindex } from './maintenance.work.ts';
import {
  makeRepository,
  type OwnAccessParts,
  accessOfDevice,
  type RepositoryAccessParts,
} from './repository-access.ts';
import { isWindowOpen, windowOpensAt } from './schedule.ts';
import { runSchedules } from './scheduler.ts';
import { BackupSnapshot } from './snapshot.model.ts';
import { SOURCE_WORK } from './source-kinds.ts';

/** Adds the jobs that the schedules of configurations ask for. */
const SCHEDULE = defineJob({ name: 'backup.schedule', input: z.object({}), attempts: 1, inCluster: 1 });

export interface BackgroundParts extends RepositoryAccessParts, OwnAccessParts {
  jobs: Jobs;
  work: WorkEngine;
  log: Logger;
}

/** The background work of backup jobs (docs/decisions/backup-jobs.md). */
export function addBackupJobs(parts: BackgroundParts): void {
  const { jobs, work, db, log } = parts;
  jobs.handle(SCHEDULE, async ({ signal }) => {
    if ((await runSchedules({ db, log }, clock.date(), signal)) > 0) work.wake();
  });
  jobs.schedule(SCHEDULE, { cron: '* * * * *', timeZone: 'UTC' }, {});
  jobs.handle(REINDEX, ({ input, signal }) => reindex(parts, input.repositoryId, signal));
  work.add(BACKUP, {
    steps: { begin: (run) => begin(parts, run), record: (run) => recordJob(db, run) },
    late: (run) => recordLateJob(db, run),
    settle: (tx, item, end) => settleJob(tx, parts, item, end),
  });
}

/** Until a job looks again at what keeps it from beginning: a prune, a tenant that is suspended, a closed window. */
const PRUNED_AGAIN_MS = 15_000;
const SUSPENDED_AGAIN_MS = 10 * MINUTE_MS;
/** A person may change the schedule meanwhile. */
const CLOSED_AGAIN_MS = 15 * MINUTE_MS;
/** Until the server tries again to make a repository: a person may wait for a first backup. */
const PREPARE_AGAIN_MS = MINUTE_MS;

const failed = (code: string, message: string): { end: WorkEnd } => ({
  end: { status: 'failed', code, message },
});
const CONFIG_MISSING = failed('CONFIG_MISSING', 'The configuration of the backup was deleted.');

/** Gives a job to its device, as soon as that is connected and nothing else stands in the way. */
async function begin(parts: BackgroundParts, { id, log }: WorkRun): Promise<StepOutcome> {
  const readiness = await withSystem(parts.db, 'read whether a backup can begin', (tx) =>
    readJobReadiness(tx, id),
  );
  if (readiness === undefined) return CONFIG_MISSING;
  const { isConnected, mayBegin, isPruned, canBackUp, isInitialized, schedule, timeZone } = readiness;
  if (!isConnected) return { until: 'connected' };
  if (!mayBegin) return { waitMs: SUSPENDED_AGAIN_MS };
  if (isPruned) return { waitMs: PRUNED_AGAIN_MS };
  const now = clock.date();
  if (schedule !== null && !isWindowOpen(schedule, timeZone, now)) {
    const closedMs = windowOpensAt(schedule, timeZone, now).getTime() - now.getTime();
    return { waitMs: Math.min(closedMs, CLOSED_AGAIN_MS) };
  }
  if (!canBackUp) {
    return failed('CAPABILITY_MISSING', 'The agent on this device cannot make backups. Update it.');
  }
  if (!isInitialized) {
    try {
      await prepareRepository(parts, id);
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
      log.warn({ err: error, detail: error.detail }, 'backup.prepare_failed');
      // All other failures may pass.
      if (error.code !== 'WRONG_KEY') return { waitMs: PREPARE_AGAIN_MS };
      return failed(`SERVER_${error.code}`, `On the server: ${error.message}`);
    }
  }
  return { give: (tx) => giveToDevice(tx, id, parts.secrets), nextStep: 'record' };
}

/** How long the command waits to be sent. A job whose command was not sent waits for its device again. */
const TTL_SECONDS = 900;
/** The lifetime of the credential: some time more than the device has, for the result, which ends it. */
const LIFETIME_SECONDS = TTL_SECONDS + BACKUP_TIMEOUT_SECONDS + 1800;

async function giveToDevice(tx: Tx, id: string, secrets: Encryptor): Promise<AddedCommand | StepOutcome> {
  const job = await BackupJob.query(tx).findById(id).throwIfNotFound();
  const config =
    job.configId === null ? undefined : await BackupConfig.query(tx).findById(job.configId).forShare();
  const device = await DeviceModel.query(tx).findById(job.deviceId);
  if (device === undefined || config?.orgId !== job.orgId) return CONFIG_MISSING;
  const sources = job.sources ?? config.sources;
  const work = SOURCE_WORK[sources.kind];
  if (!work.systems(sources).includes(device.osType)) {
    return failed('NO_SOURCES', work.refusal(device.osType));
  }
  const repository = await BackupRepository.query(tx).findOne({
    device_id: job.deviceId,
    config_id: config.id,
  });
  if (repository === undefined || repository.initializedAt === null) return { waitMs: PRUNED_AGAIN_MS };
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
  if (access === undefined) return { waitMs: PRUNED_AGAIN_MS };
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
  if ('refusal' in handed) return failed(handed.refusal.code, handed.refusal.message);
  const { chosen, ...order } = handed;
  await BackupJobFacts.query(tx)
    .findById(id)
    .patch({ credentialId: access.credentialId, repositoryId: repository.id, ...chosen });
  return addServerCommand(
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
  const job = await BackupJobFacts.query(tx).findById(jobId).forNoKeyUpdate();
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
