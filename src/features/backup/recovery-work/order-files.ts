import { clock } from '../../../clock.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { newId } from '../../../platform/ids.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import { BACKUP_TIMEOUT_SECONDS } from '../../../protocol/index.ts';
import { type AddedCommand, addServerCommand } from '../../commands/index.ts';
import { BackupRestore } from '../restores/restore.model.ts';
import { accessForDevice } from '../restores/restore-access.ts';
import { restoreOrder } from '../restores/restore-order.ts';
import { brokenRule } from '../restores/target-path.ts';
import { sourceOf } from './open-source.ts';
import { WorkRefused } from './refusal.ts';

export interface WorkDevice {
  id: string;
  orgId: string;
  osType: 'windows' | 'macos' | 'linux';
}

export interface FileOrder {
  snapshotId: string;
  device: WorkDevice;
  selectedPaths: string[] | null;
  /** Null: a new folder of the agent. */
  targetPath: string | null;
  /** What of the snapshot comes to `targetPath` itself. */
  fromPath: string | null;
  overwrite: 'never' | 'ifNewer' | 'always';
  /** How long the command waits for its device. */
  ttlSeconds: number;
  createdBy: string | null;
}

/** Has files restored, without a request. After the commit, hand the command to `announceCommands`. */
export async function orderFiles(
  tx: Tx,
  order: FileOrder,
  secrets: Sealer,
): Promise<{ restoreId: string; command: AddedCommand }> {
  const { snapshotId, device, selectedPaths, targetPath, fromPath, overwrite, createdBy } = order;
  const rule = targetPath === null ? undefined : brokenRule(device.osType, targetPath);
  if (rule !== undefined) throw new WorkRefused('TARGET_UNSAFE', `The path ${targetPath} ${rule}.`);
  const source = await sourceOf(tx, { snapshotId, orgId: device.orgId }, secrets);
  const id = newId();
  const wanted = { id, selectedPaths, image: null, targetPath, fromPath, overwrite, dryRun: false };
  const { repository, values, credentialId } = await accessForDevice({ tx }, source, id);
  const shared = {
    restoreId: id,
    repository,
    snapshotId: source.snapshot.engineId,
    timeoutSeconds: BACKUP_TIMEOUT_SECONDS,
  };
  const command = await addServerCommand(tx, device, {
    ...restoreOrder(wanted, shared),
    ttlSeconds: order.ttlSeconds,
    timeoutSeconds: BACKUP_TIMEOUT_SECONDS,
    secrets: { values, sealer: secrets },
    createdBy,
  });
  await BackupRestore.query(tx).insert({
    ...wanted,
    orgId: device.orgId,
    deviceId: device.id,
    snapshotId,
    commandId: command.id,
    credentialId,
    expiresAt: new Date(clock.now() + order.ttlSeconds * 1000),
    createdBy,
  });
  return { restoreId: id, command };
}
