import type { DeviceHub } from '../../../hub/index.ts';
import type { Context } from '../../../platform/context.ts';
import { AppError } from '../../../platform/errors.ts';
import { readDevice } from '../device.service.ts';
import { type DeviceToChange, lockDevice } from './device-lock.ts';
import type { Maintenance } from './management.schema.ts';

/** Begins or ends maintenance. To begin it again chooses anew when it ends; to end what is not is no fault. */
export async function changeMaintenance(ctx: Context, id: string, wanted: Maintenance, hub: DeviceHub) {
  const device = await lockDevice(ctx, id);
  const why = noMaintenance(device);
  if (why !== undefined) throw new AppError('conflict', why);
  await setMaintenance(ctx, [id], wanted);
  ctx.afterCommit(() => hub.devicesChanged([id]));
  return readDevice(ctx, id);
}

/** What else was decided about a device is stronger. */
export function noMaintenance({ condition }: Pick<DeviceToChange, 'condition'>): string | undefined {
  if (condition === 'normal' || condition === 'maintenance') return undefined;
  return `Not allowed while the device is ${condition}.`;
}

export async function setMaintenance(
  ctx: Context,
  ids: readonly string[],
  { enabled, until }: Maintenance,
): Promise<void> {
  await ctx
    .tx('devices')
    .whereRaw('id = any(?::uuid[])', [[...ids]])
    .update({
      condition: enabled ? 'maintenance' : 'normal',
      maintenance_until: enabled ? (until ?? null) : null,
      updated_at: new Date(),
    });
}
