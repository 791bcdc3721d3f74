import type { DeviceHub } from '../../../hub/index.ts';
import type { Context } from '../../../platform/context.ts';
import { AppError } from '../../../platform/errors.ts';
import { revokeAgentTokens } from '../credentials/agent-credentials.ts';
import { assertRoomForDevice } from './device-quota.ts';
import { readDevice } from '../device.service.ts';
import { lockDevice } from './device-lock.ts';

export interface DecommissionParts {
  hub: DeviceHub;
  forgetTokens: (deviceIds: readonly string[]) => void;
}

/** Takes a device out of service: its token dies and its connection with it. The record stays, and may come back. */
export async function decommissionDevice(ctx: Context, id: string, parts: DecommissionParts) {
  const device = await lockDevice(ctx, id);
  await takeOutOfService(ctx, [id], parts);
  return { success: true as const, device };
}

export async function takeOutOfService(
  ctx: Context,
  ids: readonly string[],
  { hub, forgetTokens }: DecommissionParts,
): Promise<void> {
  await ctx
    .tx('devices')
    .whereRaw('id = any(?::uuid[])', [[...ids]])
    .update({
      decommissioned_from: ctx.tx.raw('condition'),
      condition: 'decommissioned',
      updated_at: new Date(),
    });
  await revokeAgentTokens(ctx.tx, ids);
  ctx.afterCommit(() => {
    forgetTokens(ids);
    for (const id of ids) hub.deviceLeft(id);
  });
}

/** Back in service as it was, with all that was kept of it. Its token stays dead: the agent has to enroll again. */
export async function restoreDevice(ctx: Context, id: string, hub: DeviceHub) {
  const { orgId, condition } = await lockDevice(ctx, id, { decommissioned: true });
  if (condition !== 'decommissioned') throw new AppError('conflict', 'The device is not decommissioned.');
  await assertRoomForDevice(ctx.tx, orgId);
  await ctx
    .tx('devices')
    .where({ id })
    .update({
      condition: ctx.tx.raw(`coalesce(decommissioned_from, 'normal')`),
      decommissioned_from: null,
      updated_at: new Date(),
    });
  ctx.afterCommit(() => hub.devicesChanged([id]));
  return readDevice(ctx, id);
}
