import { z } from 'zod';
import type { QmpClient } from './qmp-client.ts';

/** Long work of qemu on disks. It goes on when nobody is connected, and its end waits until it is dismissed. */

const Jobs = z.array(
  z.object({
    id: z.string(),
    type: z.string(),
    status: z.string(),
    'current-progress': z.number().nonnegative(),
    'total-progress': z.number().nonnegative(),
    error: z.string().optional(),
  }),
);

export interface BlockJob {
  id: string;
  status: string;
  done: number;
  total: number;
  error: string | undefined;
}

export async function listJobs(monitor: QmpClient): Promise<BlockJob[]> {
  const jobs = await monitor.ask('query-jobs', Jobs);
  return jobs.map(({ id, status, error, ...job }) => ({
    id,
    status,
    error,
    done: job['current-progress'],
    total: job['total-progress'],
  }));
}

export const streamJob = (node: string) => `stream-${node}`;

/** Begins to copy what a node still has in its base. `auto-dismiss`: so that its end and its error can be read. */
export async function beginStream(monitor: QmpClient, node: string): Promise<void> {
  await monitor.execute('block-stream', {
    'job-id': streamJob(node),
    device: node,
    'auto-dismiss': false,
    // A disk that is full stops the copy and not the guest, and the copy can be begun again.
    'on-error': 'report',
  });
}

export const dismissJob = (monitor: QmpClient, id: string) => monitor.execute('job-dismiss', { id });
