import { type Context, holds, type AgentContext } from '../../platform/context.ts';
import { AppError, invalid, notFound } from '../../platform/errors.ts';
import { Device } from './device.model.ts';
import { readDevice } from './device.service.ts';
import { transferTokens, revokeAgentTokens } from './agent-credentials.ts';
import { lockDevice } from './device-update.service.ts';
import { assertDeviceQuota, type LockedDevice, lockDevices } from './device-update.queries.ts';
import { resolveConflicts } from './machine-identity.ts';
import type { DeviceHub } from '../../hub/index.ts';
import { raw } from 'objection';

/** Approves a machine that waits: as a device of its own, or in place of another device. */
export async function approveDevice(
  ctx: Context,
  id: string,
  { replaces }: { replaces?: string | undefined },
  parts: DecommissionParts,
) {
  if (replaces === id) throw invalid('body.replaces', 'must be another device');
  // In the order of their ids, as every change of many devices does.
  const others = replaces === undefined ? [] : await lockDevices(ctx, [id, replaces]);
  const device = await lockDevice(ctx, id);
  if (device.condition !== 'pending') {
    throw new AppError('conflict', 'This device does not wait for approval.');
  }
  if (replaces === undefined) return approveAsNew(ctx, device, parts);
  const old = others.find((other) => other.id === replaces);
  if (old?.orgId !== device.orgId || old.condition === 'pending') {
    throw invalid('body.replaces', 'must be a device in service of the same organization');
  }
  if (!holds(ctx.caller.permissions, 'devices:delete')) {
    throw new AppError('forbidden', 'Replacing a device needs the permission devices:delete.');
  }
  // The machine gets the backups of the old device, and the secrets of its commands.
  if (!ctx.caller.mfa) {
    throw new AppError(
      'mfa_required',
      'Replacing a device needs a session that was opened with a second factor.',
    );
  }
  return approveInPlaceOf(ctx, device, old, parts);
}

async function approveAsNew(ctx: Context, device: LockedDevice, { hub, forgetTokens }: DecommissionParts) {
  const { id } = device;
  await Device.query(ctx.tx).findById(id).patch({ condition: 'normal' });
  await resolveConflicts(ctx.tx, [device.id], 'The device was approved.');
  ctx.recordChange({ condition: device.condition }, { condition: 'normal' });
  ctx.afterCommit(() => {
    forgetTokens([id]);
    // The agent reconnects as an approved device.
    hub.disconnect(id);
    hub.devicesChanged([id]);
  });
  return readDevice(ctx, id);
}

/**
 * The record, the groups, the backups and the history of the old device stay, and the new machine goes on under them. The
 * old machine's tokens end. The record that was made for the new machine goes out of service.
 */
async function approveInPlaceOf(
  ctx: Context,
  { id, hostname }: LockedDevice,
  old: LockedDevice,
  { hub, forgetTokens }: DecommissionParts,
) {
  const before = await readDevice(ctx, old.id);
  const { claimedMachineId, ...newcomer } = await Device.query(ctx.tx)
    .findById(id)
    .select(
      'hostname',
      'os_type',
      'os_version',
      'os_build',
      'architecture',
      'agent_version',
      'hardware',
      'network',
      'enrolled_at',
      'claimed_machine_id',
    )
    .throwIfNotFound();
  await transferTokens(ctx.tx, { from: id, to: old.id });
  const { machineId } = await Device.query(ctx.tx).findById(old.id).select('machine_id').throwIfNotFound();
  await Device.query(ctx.tx)
    .findById(old.id)
    .patch({
      ...newcomer,
      // Reported when the agent reconnects.
      capabilities: [],
      ...(machineId === claimedMachineId ? {} : { claimedMachineId }),
    });
  await Device.query(ctx.tx)
    .findById(id)
    .patch({ condition: 'decommissioned', decommissionedFrom: 'pending', claimedMachineId: null });
  await resolveConflicts(ctx.tx, [id], `The machine replaced ${old.hostname}.`);
  await resolveConflicts(ctx.tx, [old.id], `${hostname} replaced the machine.`);
  const after = await readDevice(ctx, old.id);
  ctx.recordChange(identityOf(before, 'pending'), identityOf(after, 'decommissioned'));
  ctx.afterCommit(() => {
    forgetTokens([id, old.id]);
    hub.deviceReplaced(id);
    hub.disconnect(old.id);
    hub.devicesChanged([old.id]);
  });
  return after;
}

type Shown = Awaited<ReturnType<typeof readDevice>>;

/**
 * The changes of a device when another machine takes it over, and the condition of the record made for that machine.
 */
const identityOf = (
  { hostname, osType, osVersion, architecture, hardware, network }: Shown,
  condition: string,
) => ({
  condition,
  hostname,
  osType,
  osVersion,
  architecture,
  hardware,
  network,
});

export interface DecommissionParts {
  hub: DeviceHub;
  forgetTokens: (deviceIds: readonly string[]) => void;
}

/** Takes a device out of service: its token is revoked and its connection closed. The record stays and can be restored. */
export async function decommissionDevice(ctx: Context, id: string, parts: DecommissionParts) {
  const device = await lockDevice(ctx, id);
  await takeOutOfService(ctx, [id], parts);
  return { success: true as const, device };
}

/** The same by the agent of the device, when its machine leaves. */
export async function unenrollDevice(ctx: AgentContext, parts: DecommissionParts) {
  const { deviceId, orgId } = ctx.agent;
  const device = await Device.query(ctx.tx)
    .findOne({ id: deviceId, org_id: orgId })
    .whereNot('condition', 'decommissioned')
    .forNoKeyUpdate();
  if (device === undefined) throw notFound('Device');
  await takeOutOfService(ctx, [device.id], parts);
  return { success: true as const, device };
}

export async function takeOutOfService(
  ctx: Pick<Context, 'tx' | 'afterCommit'>,
  ids: readonly string[],
  { hub, forgetTokens }: DecommissionParts,
): Promise<void> {
  await Device.query(ctx.tx)
    .whereRaw('id = any(?::uuid[])', [[...ids]])
    .patch({ decommissionedFrom: raw('condition'), condition: 'decommissioned' });
  await revokeAgentTokens(ctx.tx, ids);
  await resolveConflicts(ctx.tx, ids, 'The device is out of service.');
  ctx.afterCommit(() => {
    forgetTokens(ids);
    for (const id of ids) hub.deviceLeft(id);
  });
}

/** Puts a device back in service as it was. Its token stays revoked: the agent has to enroll again. */
export async function restoreDevice(ctx: Context, id: string, hub: DeviceHub) {
  const { orgId, condition } = await lockDevice(ctx, id, { decommissioned: true });
  if (condition !== 'decommissioned') throw new AppError('conflict', 'The device is not decommissioned.');
  await assertDeviceQuota(ctx.tx, orgId);
  const [restored] = await Device.query(ctx.tx)
    .where({ id })
    .patch({ condition: raw(`coalesce(decommissioned_from, 'normal')`), decommissionedFrom: null })
    .returning('condition');
  ctx.recordChange({ condition }, { condition: restored?.condition });
  ctx.afterCommit(() => hub.devicesChanged([id]));
  return readDevice(ctx, id);
}
