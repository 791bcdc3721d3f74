import { z } from 'zod';
import { clock, HOUR_MS } from '../../clock.ts';
import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem, withSavepoint } from '../../platform/db/transaction.ts';
import { eachByItself } from '../../platform/concurrency.ts';
import { AppError } from '../../platform/errors.ts';
import { defineJob } from '../../platform/jobs/definition.ts';
import type { Jobs } from '../../platform/jobs/jobs.ts';
import type { Logger } from '../../platform/logger.ts';
import { shortened } from '../../protocol/index.ts';
import type { StepOutcome, WorkEnd, WorkEngine, WorkRun } from '../work/index.ts';
import { CloudConfig, CloudConnection, CloudJob, CloudJobFacts } from './cloud-backup.model.ts';
import { lockDueConfigs } from './cloud-backup.queries.ts';
import { nextRunOf } from './config.service.ts';
import { type CloudParts, openGraph } from './connection.service.ts';
import type { ContentParts } from './content-store.ts';
import { GraphError, isOfConnection, Postponed } from './graph-client.ts';
import { addRun, CLOUD_JOB } from './job.service.ts';
import { updateFailedRunAlert, updateReadiness } from './readiness.ts';
import { runRestore } from './restore.work.ts';
import { runBackup } from './run-backup.ts';
import type { Run } from './run.ts';

export interface CloudWorkParts extends ContentParts {
  work: WorkEngine;
  cloud: CloudParts;
}

/** The longest pause that a run waits if Microsoft requests one; for longer pauses it lets its place go. */
const PATIENCE_MS = 60_000;

export function addCloudWork(parts: CloudWorkParts): void {
  parts.work.add(CLOUD_JOB, {
    steps: { run: (run) => runJob(parts, run) },
    settle: (tx, { id }, end) => settleJob(tx, id, end),
  });
}

async function runJob(parts: CloudWorkParts, work: WorkRun): Promise<StepOutcome> {
  const { id, signal, log } = work;
  const found = await withSystem(parts.db, 'read a cloud backup or restore', (tx) => readJob(tx, id));
  // The configuration was removed.
  if (found === undefined) return { end: { status: 'cancelled' } };
  const { job, config, connection, partnerId } = found;
  const { orgId } = job;
  try {
    const graph = openGraph(parts.cloud, connection, { db: parts.db, signal, patienceMs: PATIENCE_MS });
    const { id: configId, encryptionKeyId } = config;
    const hold = (tx: Tx) => work.hold(tx);
    const run: Run = { parts, jobId: id, orgId, partnerId, configId, encryptionKeyId, hold, graph, log };
    return { end: await (job.type === 'backup' ? runBackup(run, config) : runRestore(run, job)) };
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof Postponed) {
      log.info({ delayMs: error.delayMs }, 'c2c.postponed');
      return { waitMs: error.delayMs };
    }
    if (error instanceof GraphError) {
      return { end: { status: 'failed', code: error.code, message: error.message } };
    }
    if (error instanceof AppError && error.code === 'storage_full') {
      return { end: { status: 'failed', code: 'STORAGE_FULL', message: error.message } };
    }
    throw error;
  }
}

async function readJob(tx: Tx, id: string) {
  const job = await CloudJob.query(tx).findById(id).withGraphFetched('[config, organization]');
  if (job?.config == null || job.organization == null) return undefined;
  const { config, organization } = job;
  const connection = await CloudConnection.query(tx)
    .findById(job.target?.connectionId ?? config.connectionId)
    .throwIfNotFound();
  return { job, config, connection, partnerId: organization.partnerId };
}

async function settleJob(tx: Tx, id: string, { status, code, message }: WorkEnd): Promise<void> {
  const job = await CloudJob.query(tx).findById(id).withGraphFetched('config');
  if (job?.config == null) return;
  const { config, orgId } = job;
  await CloudJobFacts.query(tx).findById(id).patch({ phase: null });
  const isGood = status === 'completed' || status === 'partial';
  const isBroken = code !== undefined && isOfConnection(new GraphError(code, ''));
  if (isGood || isBroken) {
    await CloudConnection.query(tx)
      .findById(job.target?.connectionId ?? config.connectionId)
      .patch({
        lastErrorCode: isBroken ? code : null,
        lastErrorMessage: isBroken ? shortened(message ?? '', 1000) : null,
        ...(isGood ? { lastSyncAt: clock.date() } : {}),
      });
  }
  if (job.type !== 'backup') return;
  if (isGood) await CloudConfig.query(tx).findById(config.id).patch({ lastSuccessAt: clock.date() });
  await updateFailedRunAlert(tx, orgId, { hasFailed: status === 'failed' });
  await updateReadiness(tx, orgId);
}

const BEGIN_DUE = defineJob({
  name: 'c2c.begin-due',
  input: z.object({}),
  result: z.object({}),
  inCluster: 1,
});
const AT_ONCE = 100;

/** Starts scheduled runs. If a run is still running when the next one is due, the next one is skipped. */
export function scheduleRuns({
  jobs,
  work,
  db,
  log,
}: {
  jobs: Jobs;
  work: WorkEngine;
  db: Db;
  log: Logger;
}): void {
  jobs.handle(BEGIN_DUE, async () => {
    await withSystem(db, 'begin the cloud backups that are due', async (tx) => {
      const due = await lockDueConfigs(tx, AT_ONCE);
      await eachByItself(
        due,
        (config) =>
          withSavepoint(tx, async (part) => {
            await addRun(part, work, config, { trigger: 'schedule', createdBy: null });
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
