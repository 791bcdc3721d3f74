import type { DeviceHub } from '../../hub/index.ts';
import type { Device } from './device.schema.ts';
import type { CommandTarget } from './device.service.ts';

/**
 * Whether a device supports commands of a type. For a connected device the capabilities of its handshake count, even before
 * they are stored. A device that has never connected and reported none is given the benefit of the doubt.
 */
export function supportsCommand(
  hub: Pick<DeviceHub, 'live'>,
  device: Pick<CommandTarget, 'id' | 'capabilities' | 'hasConnected'>,
  type: string,
): boolean {
  const live = hub.live(device.id);
  if (live !== undefined) return live.capabilities.includes(type);
  return device.capabilities.includes(type) || (device.capabilities.length === 0 && !device.hasConnected);
}

/**
 * A device as it has reported itself: what a handshake says is stored a moment later, and counts at once. Where another
 * server holds the connection, the stored record counts.
 */
export function asReported<
  T extends Pick<Device, 'id' | 'capabilities' | 'agentVersion' | 'watchdogVersion'>,
>(hub: Pick<DeviceHub, 'live'>, device: T): T {
  const live = hub.live(device.id);
  if (live === undefined || !live.isConnected) return device;
  return {
    ...device,
    capabilities: [...new Set(live.capabilities)].sort(),
    agentVersion: live.agentVersion,
    watchdogVersion: live.watchdogVersion ?? device.watchdogVersion,
  };
}
