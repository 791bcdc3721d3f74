import { type Context, holds } from '../../../platform/context.ts';
import { AppError, invalid } from '../../../platform/errors.ts';
import { Device } from '../device.model.ts';
import { readDevice } from '../device.service.ts';
import { giveTokensTo } from '../credentials/agent-token.service.ts';
import type { DecommissionParts } from './decommission.service.ts';
import { lockDevice, type LockedDevice, lockDevices } from './device-lock.ts';
import { resolveConflicts } from '../identity/conflict-alerts.ts';

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
  await giveTokensTo(ctx.tx, { from: id, to: old.id });
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

/** What another machine changes of a device, and the condition of the record that was made for that machine. */
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
