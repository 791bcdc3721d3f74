import { withinQueryTimeout } from '../../hub/index.ts';
import type { DetachedContext } from '../../platform/context.ts';
import { assertManageable } from '../organizations/index.ts';
import type { Device as DeviceModel } from './device.model.ts';
import { findAskableDevice } from './device.service.ts';

/**
 * The device that a live query is for. Throws if the caller may not ask it now. One limit from the arrival of the request
 * covers waiting for the database as well, and no connection is held while the device is asked.
 */
export const askableDevice = (ctx: DetachedContext, deviceId: string): Promise<DeviceModel> =>
  withinQueryTimeout(
    ctx.arrivedAt,
    ctx.withTenant(async (tenant) => {
      const device = await findAskableDevice(tenant, deviceId);
      await assertManageable(tenant, device.orgId);
      return device;
    }),
  );
