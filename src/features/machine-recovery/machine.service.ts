import type { Context, DetachedContext } from '../../platform/context.ts';
import { AppError, invalid, notFound } from '../../platform/errors.ts';
import { newId } from '../../platform/ids.ts';
import {
  BACKUP_TIMEOUT_SECONDS,
  type CommandPayload,
  type DurableCommandType,
  hypervisorCapability,
  type MachinesDetails,
} from '../../protocol/index.ts';
import {
  BackupConfig,
  type BackupSnapshot,
  type JobParts,
  type RestoreParts,
  type RestoreSource,
  restoreRules,
  backupJobs,
} from '../backup/index.ts';
import { addCommands } from '../commands/index.ts';
import { type CommandTarget, commandTargets, supportsCommand } from '../devices/index.ts';
import { assertManageable } from '../organizations/index.ts';
import { findMachine } from './machine-inventory.service.ts';
import type { BackupMachine } from './machine-recovery.model.ts';
import type {
  MachineWork,
  NewCheckpoint,
  NewMachineBackup,
  NewMachineRestore,
  NewMachineState,
  ServedHypervisor,
} from './machine.schema.ts';

/** A change of a machine expires soon, so that it does not happen unexpectedly. */
const CHANGE_TTL_SECONDS = 900;
const CHANGE_SECONDS = 3600;
const EXPORT_TTL_SECONDS = 86_400;

/** Looks for restic on the server where a snapshot is made, so before the transaction. */
export async function prepareMachineBackup(
  ctx: DetachedContext,
  { kind }: ServedHypervisor,
  { deviceId, exportPath, configId }: NewMachineBackup,
  parts: JobParts,
): Promise<void> {
  if (exportPath !== undefined) return;
  const config = await ctx.withTenant(async (tenant) => {
    const { orgId } = await manageableDevice(tenant, deviceId);
    return configOf(tenant, { kind, orgId, configId });
  });
  await backupJobs.prepareRun(ctx, deviceId, { configId: config.id }, parts);
}

export async function backUpMachine(
  ctx: Context,
  hypervisor: ServedHypervisor,
  wanted: NewMachineBackup,
  parts: JobParts,
): Promise<MachineWork> {
  const { kind } = hypervisor;
  const { deviceId, vmName, vmId, exportPath, configId } = wanted;
  if (exportPath !== undefined) return exportMachine(ctx, hypervisor, { ...wanted, exportPath }, parts);
  const { orgId } = await manageableDevice(ctx, deviceId);
  const config = await configOf(ctx, { kind, orgId, configId });
  const consistency = wanted.consistencyType ?? config.consistency;
  // The device knows its machines best, also those that it has not listed yet.
  const machines = [vmId ?? vmName ?? ''];
  const job = await backupJobs.runBackup(ctx, deviceId, { configId: config.id }, parts, {
    kind,
    machines,
    consistency,
  });
  return {
    id: job.id,
    orgId: job.orgId,
    deviceId,
    type: 'backup',
    backupJobId: job.id,
    commandId: job.commandId,
    vmId: vmId ?? null,
    vmName: vmName ?? null,
    status: job.status,
  };
}

async function exportMachine(
  ctx: Context,
  hypervisor: ServedHypervisor,
  { exportPath, consistencyType = 'application', ...which }: NewMachineBackup & { exportPath: string },
  parts: JobParts,
): Promise<MachineWork> {
  const device = await hostOf(ctx, hypervisor, { deviceId: which.deviceId, type: 'backup.vm-export' }, parts);
  const rule = restoreRules.targetPathFault(device.osType, exportPath);
  if (rule !== undefined) throw invalid('body.exportPath', rule);
  const machine = await findMachine(ctx, hypervisor.kind, which);
  return send(ctx, { device, machine, type: 'export', ttlSeconds: EXPORT_TTL_SECONDS }, parts, {
    type: 'backup.vm-export',
    payload: {
      ...target(machine),
      exportPath,
      consistency: consistencyType,
      timeoutSeconds: BACKUP_TIMEOUT_SECONDS,
    },
  });
}

export async function changeCheckpoint(
  ctx: Context,
  hypervisor: ServedHypervisor,
  { action, checkpointName, checkpointId, ...which }: NewCheckpoint,
  parts: JobParts,
): Promise<MachineWork> {
  const type = 'backup.vm-checkpoint';
  const device = await hostOf(ctx, hypervisor, { deviceId: which.deviceId, type }, parts);
  const machine = await findMachine(ctx, hypervisor.kind, which);
  const checkpoint =
    action === 'create'
      ? { checkpointName }
      : { checkpointId: checkpointId ?? checkpointCalled(machine, checkpointName ?? '') };
  return send(ctx, { device, machine, type: 'checkpoint', ttlSeconds: CHANGE_TTL_SECONDS }, parts, {
    type,
    payload: { ...target(machine), action, ...checkpoint, timeoutSeconds: CHANGE_SECONDS },
  });
}

function checkpointCalled({ facts }: BackupMachine, name: string): string {
  const [one, another] = facts.checkpoints.filter((checkpoint) => checkpoint.name === name);
  if (one === undefined) {
    throw invalid(
      'body.checkpointName',
      'must be a checkpoint of the machine: read the list with refresh=true',
    );
  }
  if (another !== undefined) {
    throw invalid('body.checkpointName', 'is the name of several checkpoints: give the checkpointId of one');
  }
  return one.id;
}

export async function changeState(
  ctx: Context,
  hypervisor: ServedHypervisor,
  { state, ...which }: NewMachineState,
  parts: JobParts,
): Promise<MachineWork> {
  const type = 'backup.vm-state';
  const device = await hostOf(ctx, hypervisor, { deviceId: which.deviceId, type }, parts);
  const machine = await findMachine(ctx, hypervisor.kind, which);
  return send(ctx, { device, machine, type: 'state', ttlSeconds: CHANGE_TTL_SECONDS }, parts, {
    type,
    payload: { ...target(machine), state, timeoutSeconds: CHANGE_SECONDS },
  });
}

const target = ({ hypervisor, machineId }: BackupMachine) => ({ hypervisor, machineId });

interface Order {
  device: CommandTarget;
  machine: BackupMachine;
  type: MachineWork['type'];
  ttlSeconds: number;
}

async function send<T extends DurableCommandType>(
  ctx: Context,
  { device, machine, type, ttlSeconds }: Order,
  { hub }: JobParts,
  work: { type: T; payload: CommandPayload<T> },
): Promise<MachineWork> {
  const [command] = await addCommands(ctx, [device], { ...work, ttlSeconds }, hub);
  if (command === undefined) throw new Error('no command was created');
  return {
    id: command.id,
    orgId: command.orgId,
    deviceId: command.deviceId,
    type,
    backupJobId: null,
    commandId: command.id,
    vmId: machine.machineId,
    vmName: machine.name,
    status: command.status,
  };
}

async function manageableDevice(ctx: Context, deviceId: string): Promise<CommandTarget> {
  const [device] = await commandTargets(ctx, [deviceId]);
  if (device === undefined) throw notFound('Device');
  await assertManageable(ctx, device.orgId);
  return device;
}

async function hostOf(
  ctx: Context,
  { kind, name }: ServedHypervisor,
  { deviceId, type }: { deviceId: string; type: DurableCommandType },
  { hub }: JobParts,
): Promise<CommandTarget> {
  const device = await manageableDevice(ctx, deviceId);
  if (!supportsCommand(hub, device, type) || !supportsCommand(hub, device, hypervisorCapability(kind))) {
    throw new AppError('capability_missing', `The agent on this device finds no ${name} there.`);
  }
  return device;
}

/** The configuration into whose repository a snapshot of a machine goes. */
async function configOf(
  { tx }: Context,
  { kind, orgId, configId }: { kind: ServedHypervisor['kind']; orgId: string; configId: string | undefined },
): Promise<{ id: string; consistency: 'application' | 'crash' }> {
  const configs = await BackupConfig.query(tx)
    .where('org_id', orgId)
    .whereRaw(`sources ->> 'kind' = ?`, [kind])
    .orderBy([{ column: 'is_default', order: 'desc' }, 'id']);
  const found = configId === undefined ? configs.slice(0, 2) : configs.filter(({ id }) => id === configId);
  const [config, another] = found;
  if (config === undefined && configId !== undefined) {
    throw invalid(
      'body.configId',
      `must be a backup configuration of the kind ${kind} of the organization of the device`,
    );
  }
  if (config === undefined) {
    throw new AppError('conflict', `The organization has no backup configuration of the kind ${kind}.`);
  }
  if (another !== undefined && !config.isDefault) {
    throw invalid(
      'body.configId',
      `is required: the organization has several configurations of the kind ${kind}`,
    );
  }
  const { sources } = config;
  return { id: config.id, consistency: 'consistency' in sources ? sources.consistency : 'application' };
}

/** Before the transaction of `restoreMachine`, because it reads from the store. */
export const prepareMachineRestore = (
  ctx: DetachedContext,
  { snapshotId: id }: NewMachineRestore,
  { backupStore }: RestoreParts,
): Promise<RestoreSource> => restoreRules.openSource(ctx, { id }, backupStore.readers);

/** Starts the restore of a machine to a hypervisor. It is a restore like those of files. */
export async function restoreMachine(
  ctx: Context,
  { kind, name }: ServedHypervisor,
  wanted: NewMachineRestore,
  { source, parts }: { source: RestoreSource; parts: RestoreParts },
) {
  const { deviceId, machine = null, vmName = null, generateNewId, targetPath } = wanted;
  const { snapshot } = source;
  assertHas(machinesOf(snapshot, kind), machine);
  const device = await restoreRules.findRestoreTarget(ctx, deviceId ?? snapshot.deviceId, snapshot.orgId, {
    hub: parts.hub,
    type: 'backup.vm-restore',
    what: `restore machines of ${name}`,
  });
  if (!supportsCommand(parts.hub, device, hypervisorCapability(kind))) {
    throw new AppError('capability_missing', `The agent on this device finds no ${name} there.`);
  }
  const rule = targetPath === undefined ? undefined : restoreRules.targetPathFault(device.osType, targetPath);
  if (rule !== undefined) throw invalid('body.targetPath', rule);
  await restoreRules.assertFewOpenRestores(ctx, device.id);
  const id = newId();
  const { repository, values } = await restoreRules.accessForDevice(ctx, source, id);
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
      ttlSeconds: restoreRules.RESTORE_TTL_SECONDS,
      secrets: { values, encryptor: parts.secrets },
    },
    parts.hub,
  );
  if (command === undefined) throw new Error('no command was created');
  const restore = await restoreRules.addRestore(
    ctx.tx,
    {
      id,
      orgId: device.orgId,
      deviceId: device.id,
      snapshotId: snapshot.id,
      targetPath: targetPath ?? null,
      overwrite: 'never',
      machine: { hypervisor: kind, name: machine, vmName, generateNewId },
      createdBy: ctx.caller.userId,
    },
    { command, ttlSeconds: restoreRules.RESTORE_TTL_SECONDS },
  );
  return restoreRules.toRestoreResponse(restore, parts.hub);
}

type Machines = MachinesDetails['machines'];

function machinesOf({ details }: BackupSnapshot, kind: ServedHypervisor['kind']): Machines {
  if (details?.kind === 'machines' && details.hypervisor === kind) return details.machines;
  throw new AppError('conflict', `The snapshot has no machines of the kind ${kind}.`);
}

/** By what the device reported about its snapshot. The restore itself reads the snapshot. */
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
