import type { Tx } from '../../../platform/db/transaction.ts';
import { BackupJob } from '../jobs/job.model.ts';
import { BackupRestore } from '../restores/restore.model.ts';
import { BackupSnapshot } from '../snapshots/snapshot.model.ts';
import { VmRestore } from '../vm-restores/vm-restore.model.ts';
import { VmFacts } from '../vm-restores/vm-restore.schema.ts';

/** How ordered work has ended. */
export type WorkEnd =
  | { outcome: 'failed' | 'cancelled'; code: string; message: string }
  | {
      outcome: 'succeeded';
      message: string;
      /** Of files: where they are. */
      folder?: string | null;
      /** Of a machine: its ports, and where they are on its host. */
      forwards?: { hostPort: number; guestPort: number }[];
      /** Of a backup. */
      snapshotId?: string;
    };

export interface WorkIds {
  restores: readonly string[];
  machines: readonly string[];
  jobs: readonly string[];
}

const GONE: WorkEnd = { outcome: 'failed', code: 'GONE', message: 'The record of this work was removed.' };

/** By id. What is not in the map has not ended yet. */
export async function workEnds(tx: Tx, ids: WorkIds): Promise<Map<string, WorkEnd>> {
  const ends = new Map<string, WorkEnd>();
  const note = <Row extends { id: string }>(
    wanted: readonly string[],
    rows: readonly Row[],
    endOf: (row: Row) => WorkEnd | undefined,
  ) => {
    const byId = new Map(rows.map((row) => [row.id, row]));
    for (const id of wanted) {
      const row = byId.get(id);
      const end = row === undefined ? GONE : endOf(row);
      if (end !== undefined) ends.set(id, end);
    }
  };
  if (ids.restores.length > 0) {
    note(ids.restores, await BackupRestore.query(tx).whereIn('id', [...ids.restores]), endOfFiles);
  }
  if (ids.machines.length > 0) {
    note(ids.machines, await VmRestore.query(tx).whereIn('id', [...ids.machines]), endOfMachine);
  }
  if (ids.jobs.length > 0) {
    const jobs = await BackupJob.query(tx).whereIn('id', [...ids.jobs]);
    const snapshots = await BackupSnapshot.query(tx)
      .whereIn('job_id', [...ids.jobs])
      .whereNull('copy_of');
    const made = new Map(snapshots.map(({ jobId, id }) => [jobId, id]));
    note(ids.jobs, jobs, (job) => endOfBackup(job, made.get(job.id)));
  }
  return ends;
}

function endOfFiles(restore: BackupRestore): WorkEnd | undefined {
  const { finishedAt, status, restoredFiles, failedCount, targetPath } = restore;
  if (finishedAt === null) return undefined;
  if (status === 'completed' || status === 'partial') {
    const failed = Number(failedCount);
    const missing = failed === 0 ? '' : ` ${failed} could not be restored.`;
    return {
      outcome: 'succeeded',
      message: `${restoredFiles ?? 0} files were restored.${missing}`,
      folder: targetPath,
    };
  }
  return badEnd(status, restore);
}

function endOfMachine(machine: VmRestore): WorkEnd | undefined {
  const { status, isOperating, vmState, result } = machine;
  if (status === 'pending' || status === 'working' || isOperating) return undefined;
  if (status !== 'active' && status !== 'completed') return badEnd(status, machine);
  if (vmState !== 'running') {
    return { outcome: 'failed', code: 'NOT_RUNNING', message: 'The machine was made, and does not run.' };
  }
  const { forwards = [] } = VmFacts.safeParse(result ?? {}).data ?? {};
  return { outcome: 'succeeded', message: 'The machine runs.', forwards };
}

function endOfBackup(job: BackupJob, snapshotId: string | undefined): WorkEnd | undefined {
  if (job.finishedAt === null) return undefined;
  if (job.status !== 'completed' && job.status !== 'partial') return badEnd(job.status, job);
  if (snapshotId === undefined) {
    return { outcome: 'failed', code: 'SNAPSHOT_MISSING', message: 'The backup has made no snapshot.' };
  }
  return { outcome: 'succeeded', message: 'The data was backed up.', snapshotId };
}

const badEnd = (
  status: string,
  { errorCode, errorMessage }: { errorCode: string | null; errorMessage: string | null },
): WorkEnd => ({
  outcome: status === 'cancelled' ? 'cancelled' : 'failed',
  code: errorCode ?? status.toUpperCase(),
  message: errorMessage ?? (status === 'cancelled' ? 'It was cancelled.' : 'It failed.'),
});
