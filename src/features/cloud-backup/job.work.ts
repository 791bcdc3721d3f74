import { z } from 'zod';
import { clock, HOUR_MS } from '../../clock.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withSystem, withSavepoint } from '../../platform/db/transaction.ts';
import { eachByItself } from '../../platform/concurrency.ts';
import { AppError } from '../../platform/errors.ts';
import { newId } from '../../platform/ids.ts';
import { type JobRun, defineJob } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import type { Logger } from '../../platform/logger.ts';
import { CloudConfig, CloudConnection, CloudJob } from './cloud-backup.model.ts';
import { lockDueConfigs } from './cloud-backup.queries.ts';
import { nextRunOf } from './config.service.ts';
import { type CloudParts, openGraph } from './connection.service.ts';
import type { ContentParts } from './content-store.ts';
import { GraphError, isOfConnection, Postponed } from './graph-client.ts';
import { enqueueWork, WORK, addRun } from './job.service.ts';
import { updateFailedRunAlert, updateReadiness } from './readiness.ts';
import { runRestore } from './restore.work.ts';
import { runBackup } from './run-backup.ts';
import { type Run, RunEnded, within } from './run.ts';
import { shortened } from '../../protocol/index.ts';

export interface WorkParts extends ContentParts {
  jobs: Jobs;
  cloud: CloudParts;
}

/** The longest pause that a worker waits if Microsoft requests one; for longer pauses it releases the job. */
const PATIENCE_MS = 60_000;
/** How often a job is retried after an unexpected failure. */
const ATTEMPTS_MAX = 5;
const LOOK_MS = 2000;

export function addWorkJob(parts: WorkParts): void {
  parts.jobs.handle(WORK, (run) => work(parts, run));
}

type Ending = { status: 'completed' | 'partial' | 'failed' | 'cancelled'; code?: string; message?: string };

async function work(
  parts: WorkParts,
  { input, signal, log, attempt }: JobRun<{ jobId: string }>,
): Promise<Record<string, never>> {
  const claimed = await claim(parts, input.jobId);
  if (claimed === undefined) return {};
  const { job, config, connection, partnerId } = claimed;
  const stop = new AbortController();
  const both = AbortSignal.any([signal, stop.signal]);
  const base = {
    parts,
    jobId: job.id,
    orgId: job.orgId,
    partnerId,
    configId: config.id,
    encryptionKeyId: config.encryptionKeyId,
    workerId: job.workerId ?? '',
    log,
  };
  const about = { connectionId: connection.id, type: job.type };
  const watching = watchCancel(base, both, () => stop.abort(new RunEnded('cancelled')));
  try {
    const graph = openGraph(parts.cloud, connection, { db: parts.db, signal: both, patienceMs: PATIENCE_MS });
    const run: Run = { ...base, graph };
    const ending =
      job.type === 'backup' ? await runBackup(run, config) : await runRestore(run, parts.cloud, job);
    await finish(run, about, ending);
  } catch (error) {
    signal.throwIfAborted();
    const reason: unknown = stop.signal.aborted ? stop.signal.reason : error;
    if (reason instanceof Postponed) {
      log.info({ cloudJobId: job.id, delayMs: reason.delayMs }, 'c2c.postponed');
      await within(base, (tx) => enqueueWork(tx, parts.jobs, job, reason.delayMs));
      return {};
    }
    const ending = endingOf(reason);
    if (ending === undefined) return {};
    if (ending === 'again' && attempt < ATTEMPTS_MAX) throw error;
    if (ending === 'again') log.error({ err: error, cloudJobId: job.id }, 'c2c.job_failed');
    const unexpected: Ending = {
      status: 'failed',
      code: 'INTERNAL',
      message: 'Something failed on the server.',
    };
    await finish(base, about, ending === 'again' ? unexpected : ending);
  } finally {
    stop.abort();
    await watching;
  }
  return {};
}

/** `undefined`: another server runs the job. */
function endingOf(error: unknown): Ending | 'again' | undefined {
  if (error instanceof RunEnded) return error.reason === 'lost' ? undefined : { status: 'cancelled' };
  if (error instanceof GraphError) return { status: 'failed', code: error.code, message: error.message };
  if (error instanceof AppError && error.code === 'storage_full') {
    return { status: 'failed', code: 'STORAGE_FULL', message: error.message };
  }
  return 'again';
}

/** A server that has lost the job may still be working: from now on it cannot record anything. */
const claim = ({ db }: WorkParts, jobId: string) =>
  withSystem(db, 'take up a cloud backup or restore', async (tx) => {
    const [job] = await CloudJob.query(tx)
      .where('id', jobId)
      .whereNull('finished_at')
      .patch({ workerId: newId(), status: 'running' })
      .returning('*');
    if (job === undefined) return undefined;
    if (job.startedAt === null) await job.$query(tx).patch({ startedAt: clock.date() });
    const config = await CloudConfig.query(tx).findById(job.configId).throwIfNotFound();
    const connection = await CloudConnection.query(tx)
      .findById(job.target?.connectionId ?? config.connectionId)
      .throwIfNotFound();
    const owner = await tx('organizations')
      .where('id', job.orgId)
      .first<{ partner_id: string }>('partner_id');
    return { job, config, connection, partnerId: owner.partner_id };
  });

/** Aborts long downloads soon after the job was cancelled or its server has lost it. */
async function watchCancel(
  run: Omit<Run, 'graph'>,
  signal: AbortSignal,
  onCancelled: () => void,
): Promise<void> {
  while (!signal.aborted) {
    await clock.sleep(LOOK_MS, { signal }).catch(() => undefined);
    if (signal.aborted) return;
    const job = await within(run, (tx) =>
      tx('c2c_jobs')
        .where('id', run.jobId)
        .first<{ at: Date | null } | undefined>({ at: 'cancel_requested_at' }),
    ).catch(() => undefined);
    if (job !== undefined && job.at !== null) onCancelled();
  }
}

async function finish(
  run: Omit<Run, 'graph'>,
  { connectionId, type }: { connectionId: string; type: CloudJob['type'] },
  ending: Ending,
): Promise<void> {
  const { status, code = null, message = null } = ending;
  await within(run, async (tx) => {
    const ended = await CloudJob.query(tx)
      .findById(run.jobId)
      .where('worker_id', run.workerId)
      .whereNull('finished_at')
      .patch({
        status,
        errorCode: code,
        errorMessage: message === null ? null : shortened(message, 1000),
        finishedAt: clock.date(),
        phase: null,
      });
    if (ended === 0) return;
    const isGood = status === 'completed' || status === 'partial';
    const isBroken = code !== null && isOfConnection(new GraphError(code, ''));
    const outcome = { lastErrorCode: isBroken ? code : null, lastErrorMessage: isBroken ? message : null };
    if (isGood) {
      await CloudConnection.query(tx)
        .findById(connectionId)
        .patch({ ...outcome, lastSyncAt: clock.date() });
    } else if (isBroken) await CloudConnection.query(tx).findById(connectionId).patch(outcome);
    if (type !== 'backup') return;
    if (isGood) await CloudConfig.query(tx).findById(run.configId).patch({ lastSuccessAt: clock.date() });
    await updateFailedRunAlert(tx, run.orgId, { hasFailed: status === 'failed' });
    await updateReadiness(tx, run.orgId);
  });
}

const BEGIN_DUE = defineJob({
  name: 'c2c.begin-due',
  input: z.object({}),
  result: z.object({}),
  inCluster: 1,
});
const AT_ONCE = 100;

/** Starts scheduled runs. If a run is still running when the next one is due, the next one is skipped. */
export function scheduleRuns({ jobs, db, log }: { jobs: Jobs; db: Db; log: Logger }): void {
  jobs.handle(BEGIN_DUE, async () => {
    await withSystem(db, 'begin the cloud backups that are due', async (tx) => {
      const due = await lockDueConfigs(tx, AT_ONCE);
      await eachByItself(
        due,
        (config) =>
          withSavepoint(tx, async (part) => {
            await addRun(part, config, jobs, { trigger: 'schedule', createdBy: null });
            await config.$query(part).patch({ nextRunAt: nextRunOf(config) });
          }),
        (error, config) => {
          log.error({ err: error, configId: config.id }, 'c2c.run_not_begun');
          // Otherwise it would come first again in every round.
          return config.$query(tx).patch({ nextRunAt: new Date(clock.now() + HOUR_MS) });
        },
      );
    });
    return {};
  });
  jobs.schedule(BEGIN_DUE, { cron: '* * * * *', timeZone: 'UTC' }, {});
}
