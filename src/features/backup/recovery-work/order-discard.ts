import type { Tx } from '../../../platform/db/transaction.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import { type AddedCommand, addServerCommand } from '../../commands/index.ts';
import { VmRestore } from '../vm-restores/vm-restore.model.ts';

/** What takes down a restore whose only purpose was to see that it works. */

interface Taken {
  device: { id: string; orgId: string };
  ttlSeconds: number;
  createdBy: string | null;
}

const TIMEOUT_SECONDS = 300;

/** Of files that went to a folder of the agent. */
export const orderFilesDiscard = (
  tx: Tx,
  { restoreId, device, ttlSeconds, createdBy }: Taken & { restoreId: string },
  secrets: Sealer,
): Promise<AddedCommand> =>
  addServerCommand(tx, device, {
    type: 'recovery.discard-restore',
    payload: { restoreId },
    ttlSeconds,
    timeoutSeconds: TIMEOUT_SECONDS,
    secrets: { values: {}, sealer: secrets },
    createdBy,
  });

/** Of a machine, whatever has become of it: a host that does not know it has nothing to do. */
export async function orderMachineDiscard(
  tx: Tx,
  { vmRestoreId, device, ttlSeconds, createdBy }: Taken & { vmRestoreId: string },
  secrets: Sealer,
): Promise<AddedCommand> {
  const command = await addServerCommand(tx, device, {
    type: 'backup.vm-discard',
    payload: { restoreId: vmRestoreId },
    ttlSeconds,
    timeoutSeconds: TIMEOUT_SECONDS,
    secrets: { values: {}, sealer: secrets },
    createdBy,
  });
  await VmRestore.query(tx).findById(vmRestoreId).patch({
    operation: 'discard',
    isOperating: true,
    commandId: command.id,
    progress: null,
    errorCode: null,
    errorMessage: null,
  });
  return command;
}
