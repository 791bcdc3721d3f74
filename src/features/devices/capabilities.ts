import type { DeviceHub } from '../../hub/index.ts';
import type { DeviceToManage } from './device.service.ts';

/**
 * Whether a device may be given work of a type. What its agent has said at the handshake counts from then on, also where
 * it is not in the database yet; of a device that has never connected and named nothing, it shows when it does.
 */
export function mayBeAble(
  hub: Pick<DeviceHub, 'live'>,
  device: Pick<DeviceToManage, 'id' | 'capabilities' | 'hasConnected'>,
  type: string,
): boolean {
  const live = hub.live(device.id);
  if (live !== undefined) return live.capabilities.includes(type);
  return device.capabilities.includes(type) || (device.capabilities.length === 0 && !device.hasConnected);
}
