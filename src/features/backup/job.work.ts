import { z } from 'zod';
import { clock } from '../../../clock.ts';
import { EngineError } from '../../../engine/index.ts';
import type { DeviceHub } from '../../../hub/index.ts';
import { withSystem, type Tx } from '../../../platform/db/transaction.ts';
import { defineJob, type JobRun } from '../../../platform/jobs/definition.ts';
import type { Jobs } from '../../../platform/jobs/jobs.ts';
import { eachByItself } from '../../../platform/each-by-itself.ts';
import type { Logger } from '../../../platform/logger.ts';
import { type AddedCommand, announceCommands } from '../../commands/index.ts';
import type { DurableCommandType } from '../../../protocol/index.ts';
import type { OwnAccessParts } from '../access/make-repository.ts';
import type { RepositoryAccessParts } from '../access/open-repository.ts';
import { REINDEX, reindex } from '../maintenance/reindex.ts';
import { dueJobs } from './due-jobs.ts';
import { handOver } from './hand-over.ts';
import { failJob } from './job-end.ts';
import { BackupJob } from './job.model.ts';
import { prepareRepository } from './prepare.ts';
import { isBackupCommand } from '../sources/index.ts';
import { closedWindows, runSchedules } from './scheduler.ts';
import { settleJob } from './settle.ts';
import { HAND_OVER as HAND_OVER_VAULTS } from '../vault-syncs/vault-jobs.ts';

/** The background work of backup jobs (docs/decisions/backup-jobs.md). */

/** Gives the jobs whose turn has come to their devices. One at a time, so that the limits of destinations hold. */
export const HAND_OVER = defineJob({
  name: 'backup.hand-over',
  input: z.object({}),
  attempts: 3,
  inCluster: 1,
});

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

/** Whether the database adds a job with the end of a command of this type. Nobody tells the runner of jobs of that. */
export const addsJobAtEnd = (type: string): boolean =>
  isBackupCommand(type) || type === ('backup.vault-sync' satisfies DurableCommandType);

/** Adds the jobs that the schedules of configurations ask for. */
const SCHEDULE = defineJob({ name: 'backup.schedule', input: z.object({}), attempts: 1, inCluster: 1 });

export interface BackgroundParts extends RepositoryAccessParts, OwnAccessParts {
  jobs: Jobs;
  hub: DeviceHub;
  log: Logger;
}

export function addBackupJobs(parts: BackgroundParts): void {
  const { jobs, db, log } = parts;
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
      // The next backup of the repository may have waited for this, also where it has failed.
      await jobs.enqueue(undefined, HAND_OVER, {});
    }
  });
  jobs.handle(SETTLE, async ({ input }) => {
    const settled = await withSystem(db, 'end a backup job with its command', async (tx) => {
      const end = await settleJob(tx, input);
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

/** What a backup without a snapshot has sent is found by the next one, where the index names it. */
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
  const once = { key: `after ${next}`, delayMs: next - clock.now() };
  await jobs.enqueue(tx, HAND_OVER, {}, once);
  // A backup that has succeeded can have added syncs.
  await jobs.enqueue(tx, HAND_OVER_VAULTS, {}, once);
}

const HOUR_MS = 3_600_000;

async function handOverDue({ db, jobs, hub, secrets, log }: BackgroundParts): Promise<void> {
  await withSystem(db, 'end backup jobs that could not begin in time', expireJobs);
  const due = await withSystem(db, 'find the backup jobs that are due', async (tx) =>
    dueJobs(tx, await closedWindows(tx, clock.date())),
  );
  const commands: AddedCommand[] = [];
  const begin = async ({ id: jobId, canBackUp, isInitialized }: (typeof due)[number]) => {
    if (canBackUp && !isInitialized) {
      // Where all attempts of an hour have failed, the next hour brings new ones.
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

async function expireJobs(tx: Tx): Promise<void> {
  await tx.raw(
    `update backup_jobs set status = 'failed', finished_at = now(), updated_at = now(), error_code = 'EXPIRED',
      error_message = 'The device was not connected, or its turn did not come, before the job expired.'
    where finished_at is null and command_id is null and expires_at <= now()`,
  );
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
