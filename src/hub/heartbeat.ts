import type { Heartbeat, HeartbeatAck } from '../protocol/index.ts';
import type { DeviceFacts } from './ports.ts';

/** What a heartbeat means, whichever way it came. */

export function heartbeatAnswer(at: number, heartbeatMs: number): HeartbeatAck {
  return { ok: true, at: new Date(at).toISOString(), nextInMs: heartbeatMs, upgrade: [] };
}

/** @param known  what the heartbeat itself does not say: only a handshake names what an agent is able to do */
export function factsOf(
  known: { deviceId: string; agentVersion: string; capabilities: readonly string[] | undefined },
  heartbeat: Heartbeat | undefined,
): DeviceFacts {
  const { osVersion, osBuild, watchdogVersion, lastUser, pendingReboot, autoUpdate } = heartbeat ?? {};
  return { ...known, osVersion, osBuild, watchdogVersion, lastUser, pendingReboot, autoUpdate };
}
