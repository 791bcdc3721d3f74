import { storeJob, JobState, JobStore, type JobCount } from './job.queries.ts';
import { z } from 'zod';
import type { Db } from '../db/pool.ts';
import type { Tx } from '../db/transaction.ts';
import { newId } from '../ids.ts';
import type { Logger } from '../logger.ts';
import type { Metrics } from '../metrics.ts';
import type { Encryptor } from '../secrets/sealed.ts';
import { type Schedule, Schedules } from './schedules.ts';
import { type Job, type JobHandler, inputContext, kindOf } from './definition.ts';
import { JOB_TIMING, JobRunner, type JobTiming } from './job-runner.ts';
import { clock } from '../../clock.ts';

/** The counts are of the whole cluster, and read from the database this often by each server. */
const REFRESH_MS = 15_000;

interface Parts {
  store: JobStore;
  metrics: Metrics | undefined;
  /** All jobs that this server handles: those without any are reported as 0. */
  names: () => readonly string[];
}

function jobMetrics({ store, metrics, names }: Parts) {
  let counts: JobCount[] = [];
  let refreshedAt = Number.NEGATIVE_INFINITY;
  const gauge = (name: string, help: string, state: string, read: (count: JobCount) => number) =>
    metrics?.labelledGauge(name, help, 'job', () => {
      const byName: Record<string, number> = Object.fromEntries(names().map((one) => [one, 0]));
      for (const count of counts) if (count.state === state) byName[count.name] = read(count);
      return byName;
    });
  gauge('muster_jobs_queued', 'Background jobs that wait, by job.', 'queued', ({ jobs }) => jobs);
  gauge('muster_jobs_running', 'Background jobs that run, by job.', 'running', ({ jobs }) => jobs);
  gauge(
    'muster_jobs_failed',
    'Background jobs of the last 14 days that failed for good, by job.',
    'failed',
    ({ jobs }) => jobs,
  );
  gauge(
    'muster_jobs_oldest_seconds',
    'For how long the oldest due background job has waited, by job.',
    'queued',
    ({ oldestSeconds }) => oldestSeconds,
  );
  const ended = metrics?.counter(
    'muster_job_attempts_total',
    'Attempts at background jobs that this server made or took over, by how they ended.',
    ['job', 'outcome'],
  );
  return {
    ended(job: string, outcome: string): void {
      ended?.inc({ job, outcome });
    },
    async refresh(): Promise<void> {
      if (metrics === undefined || clock.monotonic() - refreshedAt < REFRESH_MS) return;
      counts = await store.count();
      refreshedAt = clock.monotonic();
    },
  };
}

export interface EnqueueOptions {
  /** A second job with the same name and key is not added: for 1 day after success, 14 days after failure. */
  key?: string;
  /** The partner for which the work is done. Partners take turns, so that no partner waits for all work of another. */
  partnerId?: string | null;
  /** Not before this time has passed. */
  delayMs?: number;
  /** A job that has not succeeded by then is not begun again: it fails. Default: 30 days. */
  deadlineMs?: number;
}

export interface JobStatus<Result, Progress> {
  state: JobState;
  attempt: number;
  progress: Progress | undefined;
  result: Result | undefined;
  /** The error of the last attempt. */
  error: string | null;
}

/** Durable background work: the only part of `platform/jobs` that features use, beside `defineJob`. */
export interface Jobs {
  /** Adds a job, in the transaction of the caller if one is given. Returns the existing job if it has the same key. */
  enqueue<Input>(
    tx: Tx | undefined,
    job: Pick<Job<Input>, 'name' | 'input' | 'isSealed' | 'attempts'>,
    input: NoInfer<Input>,
    options?: EnqueueOptions,
  ): Promise<{ id: string; added: boolean }>;
  /** Registers the handler of a kind of job. To be called before the start. */
  handle<Input, Result, Progress>(
    job: Job<Input, Result, Progress>,
    handler: JobHandler<NoInfer<Input>, NoInfer<Result>, NoInfer<Progress>>,
  ): void;
  /** Adds the job whenever the schedule is due, once in a cluster. To be called before the start. */
  schedule<Input>(job: Job<Input>, schedule: Schedule, input: NoInfer<Input>): void;
  /** Ends a job that waits, and aborts one that runs. Answers whether there was one to end. */
  cancel(id: string): Promise<boolean>;
  progress<Result, Progress>(
    job: Pick<Job<unknown, Result, Progress>, 'name' | 'result' | 'progress'>,
    id: string,
  ): Promise<JobStatus<Result, Progress> | undefined>;
}

export interface RunningJobs extends Jobs {
  start(): void;
  /** Whether work that is due has been found and begun within the last half minute. */
  isWorking(): boolean;
  /** The database has added a job by itself, past `enqueue`: it is looked for at once, and not with the next look. */
  wake(): void;
  /** Runs what is due now, and what that adds, until nothing is due. */
  settle(): Promise<void>;
  /** Begins nothing more, and gives back what has not ended after a while. Jobs can still be added. */
  close(): Promise<void>;
}

const DEADLINE_MS = 30 * 24 * 3_600_000;

const StoredStatus = z.object({
  name: z.string(),
  state: JobState,
  attempt: z.number(),
  progress: z.unknown(),
  result: z.unknown(),
  error: z.string().nullable(),
});

export interface JobsOptions {
  /** A pool of its own, so that background work and requests never wait for each other's connections. */
  db: Db;
  encryptor: Encryptor;
  log: Logger;
  metrics?: Metrics;
  timing?: Partial<JobTiming>;
}

export function createJobs({ db, encryptor, log, metrics, timing }: JobsOptions): RunningJobs {
  const store = new JobStore(db);
  const schedules = new Schedules(store);
  const report = jobMetrics({ store, metrics, names: () => runner.names() });
  const runner = new JobRunner({
    store,
    schedules,
    log,
    timing: { ...JOB_TIMING, ...timing },
    onEnd: (name, outcome) => report.ended(name, outcome),
    onRound: () => report.refresh(),
  });

  const enqueue: Jobs['enqueue'] = async (tx, job, input, options = {}) => {
    if (tx === undefined) {
      const added = await store.inTransaction((own) => insert(own, job, input, options));
      runner.wake();
      return added;
    }
    // Other servers find it with their next look.
    void tx.executionPromise.then(
      () => runner.wake(),
      () => {},
    );
    return insert(tx, job, input, options);
  };

  const insert = async <Input>(
    tx: Tx,
    job: Pick<Job<Input>, 'name' | 'input' | 'isSealed' | 'attempts'>,
    input: Input,
    { key, partnerId, delayMs = 0, deadlineMs = DEADLINE_MS }: EnqueueOptions,
  ): Promise<{ id: string; added: boolean }> => {
    const id = newId();
    const text = JSON.stringify(job.input.parse(input));
    return storeJob(tx, {
      id,
      name: job.name,
      key: key ?? null,
      partnerId: partnerId ?? null,
      input: job.isSealed ? null : text,
      sealedInput: job.isSealed ? encryptor.seal(text, inputContext(id)) : null,
      delaySeconds: delayMs / 1000,
      deadlineSeconds: deadlineMs / 1000,
      attempts: job.attempts,
    });
  };

  return {
    enqueue,
    handle(job, handler) {
      runner.add(kindOf(job, handler, encryptor));
    },
    schedule(job, schedule, input) {
      const { name } = job;
      schedules.add({ name, schedule, enqueue: (tx, slot) => insert(tx, job, input, slot) });
    },
    async cancel(id) {
      return (await store.cancel(id)) !== undefined;
    },
    async progress(job, id) {
      const stored = StoredStatus.optional().parse(await store.read(id));
      if (stored?.name !== job.name) return undefined;
      const { state, attempt, progress, result, error } = stored;
      return {
        state,
        attempt,
        error,
        progress: progress === null ? undefined : job.progress?.parse(progress),
        result: result === null ? undefined : job.result?.parse(result),
      };
    },
    start: () => runner.start(),
    isWorking: () => runner.isWorking,
    wake: () => runner.wake(),
    settle: () => runner.settle(),
    close: () => runner.close(),
  };
}
