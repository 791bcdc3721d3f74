import { clock } from '../../../clock.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { newId } from '../../../platform/ids.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import { BACKUP_TIMEOUT_SECONDS, type VmNetwork } from '../../../protocol/index.ts';
import { type AddedCommand, addServerCommand } from '../../commands/index.ts';
import { accessForDevice } from '../restores/restore-access.ts';
import { extendCredential } from '../store/records/credentials.ts';
import { imageOf, specsOf } from '../vm-restores/estimate.ts';
import type { MachinePlace } from '../vm-restores/machine-source.ts';
import { startOrder } from '../vm-restores/start-order.ts';
import { VmRestore } from '../vm-restores/vm-restore.model.ts';
import { HOLD_MS } from '../vm-restores/vm-restore.service.ts';
import { sourceOf } from './open-source.ts';
import type { WorkDevice } from './order-files.ts';

export interface MachineOrder {
  snapshotId: string;
  /** The host. */
  device: WorkDevice;
  kind: VmRestore['kind'];
  /** Of a snapshot of guests: one of them, as it was read from the store. Null: the snapshot is of one machine. */
  guest: Guest | null;
  vmName: string;
  memoryMb: number | null;
  cpuCount: number | null;
  network: VmNetwork;
  ttlSeconds: number;
  createdBy: string | null;
}

interface Guest extends MachinePlace {
  id: string;
}

/** Of the start of a machine from its snapshot, which takes seconds. */
const BOOT_SECONDS = 900;

/** Has a machine made of a snapshot, without a request. After the commit, hand the command to `announceCommands`. */
export async function orderMachine(
  tx: Tx,
  order: MachineOrder,
  secrets: Sealer,
): Promise<{ vmRestoreId: string; command: AddedCommand }> {
  const { snapshotId, device, kind, guest, vmName, network, ttlSeconds, createdBy } = order;
  const source = await sourceOf(tx, { snapshotId, orgId: device.orgId }, secrets);
  const specs = specsOf(guest?.image ?? imageOf(source.snapshot));
  const spec = {
    memoryMb: order.memoryMb ?? specs.memoryMb,
    cpuCount: order.cpuCount ?? specs.cpuCount,
    diskSizeGb: null,
    format: 'qcow2' as const,
    start: true,
    network,
    targetPath: null,
    ...(guest === null ? {} : { machine: guest.id }),
  };
  const started = { id: newId(), vmName, spec, kind };
  const { repository, values, credentialId } = await accessForDevice({ tx }, source, started.id);
  if (kind === 'instant_boot') await extendCredential(tx, credentialId, new Date(clock.now() + HOLD_MS));
  const command = await addServerCommand(tx, device, {
    ...startOrder(started, { snapshot: source.snapshot, repository, ...placeOf(guest) }),
    ttlSeconds,
    timeoutSeconds: kind === 'as_vm' ? BACKUP_TIMEOUT_SECONDS : BOOT_SECONDS,
    secrets: { values, sealer: secrets },
    createdBy,
  });
  await VmRestore.query(tx).insert({
    ...started,
    orgId: device.orgId,
    deviceId: device.id,
    snapshotId,
    hypervisor: 'kvm',
    operation: kind === 'as_vm' ? 'restore' : 'boot',
    isOperating: true,
    holdsSnapshot: kind === 'instant_boot',
    commandId: command.id,
    credentialId,
    expiresAt: new Date(clock.now() + ttlSeconds * 1000),
    createdBy,
  });
  return { vmRestoreId: started.id, command };
}

const placeOf = (guest: Guest | null) =>
  guest === null ? {} : { image: guest.image, imagePath: guest.imagePath };
