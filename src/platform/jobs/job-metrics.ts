import { clock } from '../../clock.ts';
import type { Metrics } from '../metrics.ts';
import type { JobCount, JobStore } from './job-store.ts';

/** The counts are of the whole cluster, and read from the database this often by each server. */
const REFRESH_MS = 15_000;

interface Parts {
  store: JobStore;
  metrics: Metrics | undefined;
  /** All jobs that this server handles: those without any are reported as 0. */
  names: () => readonly string[];
}

export function jobMetrics({ store, metrics, names }: Parts) {
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
