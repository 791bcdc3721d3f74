import type { DeviceSummary } from '../../protocol/index.ts';
import type { ActorRegistry } from '../device/actor-registry.ts';
import { statusAfter } from '../subscriptions/device-change.ts';
import type { HttpReports } from './http-reports.ts';

/** The database is written behind, so what this process has heard itself is newer. */
export function withLivePresence(
  device: DeviceSummary,
  registry: ActorRegistry,
  reports: HttpReports,
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
  const reportedAt = reports.lastSeenAt(device.id);
  if (reportedAt === undefined) return device;
  const lastSeenAt = Math.max(reportedAt, device.lastSeenAt === null ? 0 : Date.parse(device.lastSeenAt));
  return {
    ...device,
    status: statusAfter(device.status, { isReporting: true }),
    lastSeenAt: new Date(lastSeenAt).toISOString(),
  };
}
