import { clock } from '../../../clock.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import { newId } from '../../../platform/ids.ts';
import type { JobRun } from '../../../platform/jobs/definition.ts';
import type { Jobs } from '../../../platform/jobs/jobs.ts';
import { AppError } from '../../../platform/errors.ts';
import { followRuns } from '../care/follow-runs.ts';
import { CloudConfig } from '../configs/config.model.ts';
import { CloudConnection } from '../connections/connection.model.ts';
import { type CloudParts, openGraph } from '../connections/open-graph.ts';
import type { ContentParts } from '../content/content.ts';
import { GraphError, isOfConnection, Postponed } from '../graph/graph-error.ts';
import { runRestore } from '../restores/run-restore.ts';
import { runBackup } from '../runs/run-backup.ts';
import { followFailedRuns } from '../failed-runs.ts';
import { CloudJob } from '../jobs/job.model.ts';
import { enqueueWork, WORK } from '../jobs/job.service.ts';
import { type Run, RunEnded, within } from '../runs/run.ts';

export interface WorkParts extends ContentParts {
  jobs: Jobs;
  cloud: CloudParts;
}

/** A worker waits so long by itself where Microsoft asks it to; for longer pauses it gives its place to others. */
const PATIENCE_MS = 60_000;
/** Of failures that nobody expects. */
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

/** `undefined`: another server does the work. */
function endingOf(error: unknown): Ending | 'again' | undefined {
  if (error instanceof RunEnded) return error.reason === 'lost' ? undefined : { status: 'cancelled' };
  if (error instanceof GraphError) return { status: 'failed', code: error.code, message: error.message };
  if (error instanceof AppError && error.code === 'storage_full') {
    return { status: 'failed', code: 'STORAGE_FULL', message: error.message };
  }
  return 'again';
}

/** A server that has lost the job may still be working: from now on it records nothing more. */
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

/** Ends long downloads soon after somebody has cancelled the job, or its server has lost it. */
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
        errorMessage: message?.slice(0, 1000) ?? null,
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
    await followFailedRuns(tx, run.orgId, { hasFailed: status === 'failed' });
    await followRuns(tx, run.orgId);
  });
}
