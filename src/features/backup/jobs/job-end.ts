import { clock } from '../../../clock.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { endCredential } from '../store/records/credentials.ts';
import type { BackupJob } from './job.model.ts';

const MESSAGE_MAX = 2000;

/** What a job shows of its progress that is of this moment. */
export const NOT_MOVING = { rate: null, etaSeconds: null, currentPath: null, stalledSince: null };

/** Ends a job that made no snapshot. Its device can write nothing more. */
export async function failJob(tx: Tx, job: BackupJob, code: string, message: string): Promise<void> {
  if (job.credentialId !== null) await endCredential(tx, job.credentialId);
  await job.$query(tx).patch({
    status: 'failed',
    errorCode: code.slice(0, 64),
    errorMessage: message.slice(0, MESSAGE_MAX),
    ...NOT_MOVING,
    finishedAt: clock.date(),
  });
}

export async function cancelJobNow(tx: Tx, job: BackupJob): Promise<void> {
  if (job.credentialId !== null) await endCredential(tx, job.credentialId);
  const at = clock.date();
  await job.$query(tx).patch({
    status: 'cancelled',
    cancelRequestedAt: job.cancelRequestedAt ?? at,
    ...NOT_MOVING,
    finishedAt: at,
  });
}
