import { clock } from '../../../clock.ts';
import type { DeviceHub } from '../../../hub/index.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { cancelServerCommand } from '../../commands/index.ts';
import { cancelJobNow } from '../jobs/job-end.ts';
import { BackupJob } from '../jobs/job.model.ts';
import { BackupRestore } from '../restores/restore.model.ts';
import { VmRestore } from '../vm-restores/vm-restore.model.ts';

export type OrderedWork = { restoreId: string } | { vmRestoreId: string } | { backupJobId: string };

/**
 * Asks for the end of ordered work. Returns what is to be called after the commit; `undefined` where it is to be asked for
 * again, because the work is just being given to its device.
 */
export async function cancelWork(
  tx: Tx,
  work: OrderedWork,
  hub: DeviceHub,
): Promise<(() => void) | undefined> {
  if ('backupJobId' in work) return cancelBackup(tx, work.backupJobId, hub);
  const row =
    'restoreId' in work
      ? await BackupRestore.query(tx).findById(work.restoreId)
      : await VmRestore.query(tx).findById(work.vmRestoreId);
  if (row === undefined) return () => {};
  return (await cancelServerCommand(tx, row.commandId, hub)).announce;
}

async function cancelBackup(tx: Tx, id: string, hub: DeviceHub): Promise<(() => void) | undefined> {
  const found = await BackupJob.query(tx).findById(id);
  if (found === undefined) return () => {};
  const { commandId } = found;
  // The command is changed before the job, as when its device reports: otherwise both could wait for each other.
  const request = commandId === null ? undefined : await cancelServerCommand(tx, commandId, hub);
  const job = await BackupJob.query(tx).findById(id).forUpdate();
  if (job === undefined || job.finishedAt !== null) return request?.announce ?? (() => {});
  if (job.commandId !== commandId) return undefined;
  if (request === undefined || request.hasEnded) await cancelJobNow(tx, job);
  else await job.$query(tx).patch({ cancelRequestedAt: job.cancelRequestedAt ?? clock.date() });
  return request?.announce ?? (() => {});
}
