import { clock } from '../../../clock.ts';
import type { Context, DetachedContext } from '../../../platform/context.ts';
import { AppError, invalid } from '../../../platform/errors.ts';
import { newId } from '../../../platform/ids.ts';
import {
  BACKUP_TIMEOUT_SECONDS,
  hypervisorCapability,
  type MachinesDetails,
} from '../../../protocol/index.ts';
import { addCommands } from '../../commands/index.ts';
import { supportsCommand } from '../../devices/index.ts';
import { accessForDevice, openSource, type RestoreSource, TTL_SECONDS } from '../restores/restore-access.ts';
import { BackupRestore } from '../restores/restore.model.ts';
import { assertFewOpen, findTarget, type RestoreParts, shownRestore } from '../restores/restore.service.ts';
import { brokenRule } from '../restores/target-path.ts';
import type { BackupSnapshot } from '../snapshots/snapshot.model.ts';
import type { NewMachineRestore } from './machines.schema.ts';
import type { ServedHypervisor } from './served-hypervisor.ts';

/** Before the transaction of `restoreMachine`, because it reads from the store. */
export const prepareMachineRestore = (
  ctx: DetachedContext,
  { snapshotId: id }: NewMachineRestore,
  { backupStore }: RestoreParts,
): Promise<RestoreSource> => openSource(ctx, { id }, backupStore.readers);

/** Orders that a machine of a snapshot becomes one of a hypervisor again. It lives on as other restores do. */
export async function restoreMachine(
  ctx: Context,
  { kind, name }: ServedHypervisor,
  wanted: NewMachineRestore,
  { source, parts }: { source: RestoreSource; parts: RestoreParts },
) {
  const { deviceId, machine = null, vmName = null, generateNewId, targetPath } = wanted;
  const { snapshot } = source;
  assertHas(machinesOf(snapshot, kind), machine);
  const device = await findTarget(ctx, deviceId ?? snapshot.deviceId, snapshot.orgId, {
    hub: parts.hub,
    type: 'backup.vm-restore',
    what: `restore machines of ${name}`,
  });
  if (!supportsCommand(parts.hub, device, hypervisorCapability(kind))) {
    throw new AppError('capability_missing', `The agent on this device finds no ${name} there.`);
  }
  const rule = targetPath === undefined ? undefined : brokenRule(device.osType, targetPath);
  if (rule !== undefined) throw invalid('body.targetPath', rule);
  await assertFewOpen(ctx, device.id);
  const id = newId();
  const { repository, values, credentialId } = await accessForDevice(ctx, source, id);
  const [command] = await addCommands(
    ctx,
    [device],
    {
      type: 'backup.vm-restore',
      payload: {
        restoreId: id,
        repository,
        snapshotId: snapshot.engineId,
        hypervisor: kind,
        ...(machine === null ? {} : { machine }),
        ...(vmName === null ? {} : { vmName }),
        generateNewId,
        ...(targetPath === undefined ? {} : { targetPath }),
        timeoutSeconds: BACKUP_TIMEOUT_SECONDS,
      },
      ttlSeconds: TTL_SECONDS,
      secrets: { values, sealer: parts.secrets },
    },
    parts.hub,
  );
  if (command === undefined) throw new Error('no command was created');
  const restore = await BackupRestore.query(ctx.tx).insertAndFetch({
    id,
    orgId: device.orgId,
    deviceId: device.id,
    snapshotId: snapshot.id,
    asOf: null,
    selectedPaths: null,
    targetPath: targetPath ?? null,
    overwrite: 'never',
    dryRun: false,
    machine: { hypervisor: kind, name: machine, vmName, generateNewId },
    commandId: command.id,
    credentialId,
    expiresAt: new Date(clock.now() + TTL_SECONDS * 1000),
    createdBy: ctx.caller.userId,
  });
  return shownRestore(restore, parts.hub);
}

type Machines = MachinesDetails['machines'];

function machinesOf({ details }: BackupSnapshot, kind: ServedHypervisor['kind']): Machines {
  if (details?.kind === 'machines' && details.hypervisor === kind) return details.machines;
  throw new AppError('conflict', `The snapshot has no machines of the kind ${kind}.`);
}

/** What the device has said of its snapshot. What is really there, it finds out when it restores. */
function assertHas(machines: Machines, wanted: string | null): void {
  if (wanted === null) {
    if (machines.length > 1) {
      throw invalid('body.machine', `is required: the snapshot has ${machines.length} machines`);
    }
    return;
  }
  const name = wanted.toLowerCase();
  const found = machines.filter((each) => each.id === name || each.name.toLowerCase() === name);
  if (found.length === 0) throw invalid('body.machine', 'must be a machine in the snapshot');
  if (found.length > 1) throw invalid('body.machine', 'is the name of several machines: give the id of one');
}
