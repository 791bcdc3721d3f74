import type { DevicePatch } from '../../../src/hub/index.ts';
import type { DeviceSummary } from '../../../src/protocol/index.ts';

/** Devices of one organization, and a steady stream of changes as heartbeats cause them. */

const ORG = '0198f7a2-5b1c-7c3e-9a51-000000000001';
const SITE = '0198f7a2-5b1c-7c3e-9a51-000000000002';
const SINCE = '2026-11-20T10:00:00.000Z';
const PRESENCE = { state: 'connected', since: SINCE, reason: 'connected' } as const;
const TICK_MS = 5;

export function devicesOfOneOrganization(count: number): DeviceSummary[] {
  return Array.from({ length: count }, (_value, at) => ({
    id: `0198f7a2-5b1c-7c3e-9a52-${at.toString(16).padStart(12, '0')}`,
    orgId: ORG,
    siteId: SITE,
    hostname: `DESK-${at}`,
    displayName: null,
    osType: 'windows',
    agentVersion: '1.4.2',
    status: 'online',
    maintenance: null,
    presence: PRESENCE,
    lastSeenAt: SINCE,
    metrics: null,
  }));
}

/** Changes one device after another at this rate for this time. Resolves with the number of changes. */
export async function changeSteadily(
  devices: readonly DeviceSummary[],
  { perSecond, seconds }: { perSecond: number; seconds: number },
  tell: (deviceId: string, patch: DevicePatch) => void,
): Promise<number> {
  const startedAt = performance.now();
  let done = 0;
  while (performance.now() - startedAt < seconds * 1000) {
    const due = Math.floor(((performance.now() - startedAt) / 1000) * perSecond);
    for (; done < due; done++) {
      const patch: DevicePatch = {
        presence: PRESENCE,
        isReporting: false,
        lastSeenAt: new Date().toISOString(),
        metrics: { cpuPercent: done % 100, ramPercent: 41.5, diskPercent: 63.25 },
      };
      tell(devices[done % devices.length]?.id ?? '', patch);
    }
    await new Promise((resolve) => setTimeout(resolve, TICK_MS));
  }
  return done;
}
