import type { Logger } from '../../platform/logger.ts';
import { type Tx, withTenant } from '../../platform/db/transaction.ts';
import { organizationScope } from '../groups/index.ts';
import type { ContentParts } from './content-store.ts';
import type { GraphClient } from './graph-client.ts';

/** A run of a configuration or a restore, as a worker of this server executes it. */
export interface Run {
  parts: ContentParts;
  jobId: string;
  orgId: string;
  partnerId: string;
  configId: string;
  encryptionKeyId: string;
  /** The id of this worker. A server that takes the job over sets its own. */
  workerId: string;
  graph: GraphClient;
  log: Logger;
}

/** How far a container has been read. */
export interface Cursor {
  id: string;
  round: number;
  isWhole: boolean;
  nextLink: string | null;
  deltaLink: string | null;
}

/** The job was taken over, has ended, or is to be cancelled. */
export class RunEnded extends Error {
  readonly reason: 'cancelled' | 'lost';

  constructor(reason: 'cancelled' | 'lost') {
    super(`The run is ${reason}.`);
    this.name = 'RunEnded';
    this.reason = reason;
  }
}

export const within = <T>(
  { parts, orgId }: Pick<Run, 'parts' | 'orgId'>,
  work: (tx: Tx) => PromiseLike<T>,
): Promise<T> => withTenant(parts.db, organizationScope(orgId), work);

/**
 * Locks the job, so that no other worker takes it over before the transaction ends.
 * @throws RunEnded
 */
export async function holdJob(tx: Tx, { jobId, workerId }: Pick<Run, 'jobId' | 'workerId'>): Promise<void> {
  const job = await tx('c2c_jobs')
    .where('id', jobId)
    .whereNull('finished_at')
    .forNoKeyUpdate()
    .first<{ worker: string | null; cancelled: Date | null } | undefined>({
      worker: 'worker_id',
      cancelled: 'cancel_requested_at',
    });
  if (job?.worker !== workerId) throw new RunEnded('lost');
  if (job.cancelled !== null) throw new RunEnded('cancelled');
}
