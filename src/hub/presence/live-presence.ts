import type { DeviceSummary } from '../../protocol/index.ts';
import type { ActorRegistry } from '../device/actor-registry.ts';
import { statusAfter } from '../subscriptions/device-change.ts';
import type { ReportingDevices } from './reporting-devices.ts';

/** The device with the presence that this process knows, which is newer than the database: presence is written later. */
export function withLivePresence(
  device: DeviceSummary,
  registry: ActorRegistry,
  reporting: ReportingDevices,
): DeviceSummary {
  const actor = registry.get(device.id);
  if (actor?.countsAsConnected === true) {
    const presence = {
      state: 'connected',
      since: new Date(actor.connectedSince).toISOString(),
      reason: 'connected',
    } as const;
    return {
      ...device,
      presence,
      status: statusAfter(device.status, { presence }),
      lastSeenAt: new Date(actor.lastHeardAt).toISOString(),
    };
  }
  const reportedAt = reporting.lastSeenAt(device.id);
  if (reportedAt === undefined) return device;
  const lastSeenAt = Math.max(reportedAt, device.lastSeenAt === null ? 0 : Date.parse(device.lastSeenAt));
  return {
    ...device,
    status: statusAfter(device.status, { isReporting: true }),
    lastSeenAt: new Date(lastSeenAt).toISOString(),
  };
}
