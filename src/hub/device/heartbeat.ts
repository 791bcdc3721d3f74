import type { Heartbeat, HeartbeatAck } from '../../protocol/index.ts';
import type { DeviceFacts } from '../ports.ts';

/** What a heartbeat means, whichever way it came. */

/** The part of a heartbeat that is about the machine: it changes rarely, and is written when it does. */
const FACTS = [
  'agentVersion',
  'osVersion',
  'osBuild',
  'watchdogVersion',
  'lastUser',
  'pendingReboot',
  'autoUpdate',
] as const;
export type ToldFacts = Pick<Heartbeat, (typeof FACTS)[number]>;

const NO_UPGRADES: HeartbeatAck['upgrade'] = [];

let answer: Readonly<HeartbeatAck> | undefined;

/** One object for all that are answered within a millisecond. */
export function heartbeatAnswer(at: number, heartbeatMs: number): Readonly<HeartbeatAck> {
  const now = instant(at);
  if (answer?.at !== now || answer.nextInMs !== heartbeatMs) {
    answer = { ok: true, at: now, nextInMs: heartbeatMs, upgrade: NO_UPGRADES };
  }
  return answer;
}

let writtenAt = Number.NaN;
let written = '';

/** ISO 8601. Many heartbeats come within one millisecond; their time is written out once. */
export function instant(at: number): string {
  if (at !== writtenAt) {
    written = new Date(at).toISOString();
    writtenAt = at;
  }
  return written;
}

/** Without the rest of the heartbeat, so that keeping it keeps no more. */
export function toldFacts(heartbeat: ToldFacts): ToldFacts {
  const { agentVersion, osVersion, osBuild, watchdogVersion, lastUser, pendingReboot, autoUpdate } =
    heartbeat;
  return { agentVersion, osVersion, osBuild, watchdogVersion, lastUser, pendingReboot, autoUpdate };
}

export function tellsNothingNew(before: ToldFacts, heartbeat: ToldFacts): boolean {
  return FACTS.every((fact) => before[fact] === heartbeat[fact]);
}

/** @param known  what the heartbeat itself does not say: only a handshake names what an agent is able to do */
export function factsOf(
  known: { deviceId: string; capabilities: readonly string[] | undefined },
  told: ToldFacts,
): DeviceFacts {
  return { ...known, ...told };
}
