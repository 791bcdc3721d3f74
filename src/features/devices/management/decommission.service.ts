import type { DeviceHub } from '../../../hub/index.ts';
import type { AgentContext, Context } from '../../../platform/context.ts';
import { AppError, notFound } from '../../../platform/errors.ts';
import { raw } from 'objection';
import { revokeAgentTokens } from '../credentials/agent-token.service.ts';
import { Device } from '../device.model.ts';
import { assertDeviceQuota } from './device-quota.ts';
import { readDevice } from '../device.service.ts';
import { resolveConflicts } from '../identity/conflict-alerts.ts';
import { lockDevice } from './device-lock.ts';

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
