import type { DeviceHub } from '../../../hub/index.ts';
import type { Context } from '../../../platform/context.ts';
import { AppError } from '../../../platform/errors.ts';
import { Device } from '../device.model.ts';
import { readDevice } from '../device.service.ts';
import { type LockedDevice, lockDevice } from './device-lock.ts';
import type { Maintenance } from './management.schema.ts';

/** Starts or ends maintenance. Starting it again replaces its end; ending it twice is no error. */
export async function changeMaintenance(ctx: Context, id: string, wanted: Maintenance, hub: DeviceHub) {
  const device = await lockDevice(ctx, id);
  const why = maintenanceRefusal(device);
  if (why !== undefined) throw new AppError('conflict', why);
  const changes = changesOf(wanted);
  await setMaintenance(ctx, [id], wanted);
  ctx.recordChange({ condition: device.condition, maintenanceUntil: device.maintenanceUntil }, changes);
  ctx.afterCommit(() => hub.devicesChanged([id]));
  return readDevice(ctx, id);
}

/** Why a device cannot be put into maintenance; `undefined` where it can. Any other condition takes precedence. */
export function maintenanceRefusal({ condition }: Pick<LockedDevice, 'condition'>): string | undefined {
  if (condition === 'normal' || condition === 'maintenance') return undefined;
  return `Not allowed while the device is ${condition}.`;
}

export async function setMaintenance(
  ctx: Context,
  ids: readonly string[],
  wanted: Maintenance,
): Promise<void> {
  await Device.query(ctx.tx)
    .whereRaw('id = any(?::uuid[])', [[...ids]])
    .patch(changesOf(wanted));
}

const changesOf = ({ enabled, until }: Maintenance) => ({
  condition: enabled ? ('maintenance' as const) : ('normal' as const),
  maintenanceUntil: enabled ? (until ?? null) : null,
});
