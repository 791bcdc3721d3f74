import { clock } from '../../clock.ts';
import { EngineError } from '../../engine/index.ts';
import type { DeviceHub } from '../../hub/index.ts';
import type { Db } from '../../platform/db/pool.ts';
import { type Tx, withSystem } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import { newId } from '../../platform/ids.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { BACKUP_TIMEOUT_SECONDS, type VmNetwork } from '../../protocol/index.ts';
import { extendCredential } from '../backup-store/index.ts';
import {
  type Discarded,
  type RepositoryReaders,
  type WorkDevice,
  type WorkEnd,
  WorkRefused,
  restoreRules,
  recoveryWork,
} from '../backup/index.ts';
import { type AddedCommand, addServerCommand, cancelServerCommand } from '../commands/index.ts';
import { VmRestore } from './machine-recovery.model.ts';
import { imageOf, type MachinePlace, readPlace, specsOf, startOrder } from './machine-source.ts';
import { VmFacts } from './vm-restore.schema.ts';
import { HOLD_MS } from './vm-restore.service.ts';

export interface MachineRestoreStart {
  snapshotId: string;
  /** The host. */
  device: WorkDevice;
  kind: VmRestore['kind'];
  /** For a snapshot of guests: one of them, as it was read from the store. Null for a snapshot of one machine. */
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

/** The time limit for starting a machine from its snapshot, which takes seconds. */
const BOOT_SECONDS = 900;

/** Starts the restore of a machine from a snapshot without a request. After the commit, hand the command to `announceCommands`. */
export async function startMachineRestore(
  tx: Tx,
  order: MachineRestoreStart,
  secrets: Encryptor,
): Promise<{ vmRestoreId: string; command: AddedCommand }> {
  const { snapshotId, device, kind, guest, vmName, network, ttlSeconds, createdBy } = order;
  const source = await recoveryWork.sourceOf(tx, { snapshotId, orgId: device.orgId }, secrets);
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
  const { repository, values, credentialId } = await restoreRules.accessForDevice({ tx }, source, started.id);
  if (kind === 'instant_boot') await extendCredential(tx, credentialId, new Date(clock.now() + HOLD_MS));
  const command = await addServerCommand(tx, device, {
    ...startOrder(started, { snapshot: source.snapshot, repository, ...placeOf(guest) }),
    ttlSeconds,
    timeoutSeconds: kind === 'as_vm' ? BACKUP_TIMEOUT_SECONDS : BOOT_SECONDS,
    secrets: { values, encryptor: secrets },
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

interface WantedGuest {
  snapshotId: string;
  orgId: string;
  /** Its id. */
  machine: string;
}

/**
 * Reads from the store what a guest of a snapshot consists of, which its host has not reported. So it must not be called
 * within a transaction. Throws `WorkRefused`.
 */
export async function readGuest(
  db: Db,
  { snapshotId, orgId, machine }: WantedGuest,
  readers: RepositoryReaders,
  signal: AbortSignal,
): Promise<MachinePlace> {
  const { snapshot, repository } = await withSystem(db, 'find the snapshot of a guest to restore', (tx) =>
    recoveryWork.storedSnapshot(tx, { snapshotId, orgId }),
  );
  try {
    const { reader } = await readers.open(repository, null);
    return await readPlace(reader, snapshot, { machine, field: 'machine', signal });
  } catch (error) {
    if (error instanceof EngineError) throw new WorkRefused(error.code, error.message);
    if (error instanceof AppError) throw new WorkRefused('IMAGE_UNUSABLE', error.message);
    throw error;
  }
}

/** Removes a restored machine, whatever its state: a host that does not know it has nothing to do. */
export async function discardMachine(
  tx: Tx,
  { vmRestoreId, device, ttlSeconds, createdBy }: Discarded & { vmRestoreId: string },
  secrets: Encryptor,
): Promise<AddedCommand> {
  const command = await addServerCommand(tx, device, {
    type: 'backup.vm-discard',
    payload: { restoreId: vmRestoreId },
    ttlSeconds,
    timeoutSeconds: recoveryWork.DISCARD_TIMEOUT_SECONDS,
    secrets: { values: {}, encryptor: secrets },
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

/** Asks for the end of a restore of a machine. Returns what is to be called after the commit. */
export async function cancelMachineRestore(tx: Tx, id: string, hub: DeviceHub): Promise<() => void> {
  const row = await VmRestore.query(tx).findById(id);
  return row === undefined ? () => {} : (await cancelServerCommand(tx, row.commandId, hub)).announce;
}

/** How restores of machines have ended, by their id. A restore that has not ended is not in the map. */
export async function endsOfMachineRestores(tx: Tx, ids: readonly string[]): Promise<Map<string, WorkEnd>> {
  if (ids.length === 0) return new Map();
  return recoveryWork.endsById(ids, await VmRestore.query(tx).whereIn('id', [...ids]), endOfMachine);
}

function endOfMachine(machine: VmRestore): WorkEnd | undefined {
  const { status, isOperating, vmState, result } = machine;
  if (status === 'pending' || status === 'working' || isOperating) return undefined;
  if (status !== 'active' && status !== 'completed') return recoveryWork.badEnd(status, machine);
  if (vmState !== 'running') {
    return { outcome: 'failed', code: 'NOT_RUNNING', message: 'The machine was made, and does not run.' };
  }
  const { forwards = [] } = VmFacts.safeParse(result ?? {}).data ?? {};
  return { outcome: 'succeeded', message: 'The machine runs.', forwards };
}
