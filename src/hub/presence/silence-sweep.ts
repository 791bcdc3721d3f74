import { clock } from '../../clock.ts';
import type { ActorRegistry } from '../device/actor-registry.ts';
import type { HttpReports } from './http-reports.ts';
import type { LostDevices } from './lost-devices.ts';

const SWEEP_MS = 1000;
/** Every so many sweeps, connections are ended that leave too much unread. */
const SWEEPS_BETWEEN_UNREAD = 10;

/** Ends silent connections and expired reports. One timer serves all devices. Returns what stops it. */
export function startSilenceSweep(parts: {
  registry: ActorRegistry;
  reports: HttpReports;
  lostDevices: LostDevices;
  silentAfterMs: number;
}): () => void {
  const { registry, reports, lostDevices } = parts;
  const silentAfterSweeps = Math.ceil(parts.silentAfterMs / SWEEP_MS);
  let sweeps = 0;
  const timer = clock.setInterval(() => {
    sweeps += 1;
    const checksUnread = sweeps % SWEEPS_BETWEEN_UNREAD === 0;
    lostDevices.markOrphans();
    for (const actor of registry.values()) {
      if (actor.countSilentSweep() > silentAfterSweeps && actor.isConnected) actor.heartbeatMissed();
      if (checksUnread) actor.endIfUnread();
    }
    reports.sweep();
  }, SWEEP_MS);
  return () => clock.clear(timer);
}
