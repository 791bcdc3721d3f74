/** How long to wait before the next attempt. Pure: callers can pass the source of randomness. */

const BASE_MS = 1000;
const CAP_MS = 60_000;

/** The longest wait that a server can ask for. During it, the agent cannot be reached. */
const ASKED_MAX_MS = 4 * 3_600_000;
/** Limits for the heartbeat interval that a server can ask for. Timers of more than 24 days would fire at once. */
const HEARTBEAT_MIN_MS = 50;
const HEARTBEAT_MAX_MS = 3_600_000;

export const boundedWait = (askedMs: number) => Math.min(Math.max(0, askedMs), ASKED_MAX_MS);

/** Doubles with each failed attempt up to a minute, with full jitter, so that a fleet does not reconnect all at once. */
export function reconnectDelay(
  failedAttempts: number,
  random: () => number = Math.random,
  capMs: number = CAP_MS,
): number {
  const ceiling = Math.min(capMs, BASE_MS * 2 ** Math.min(failedAttempts, 16));
  return Math.round(BASE_MS / 4 + random() * ceiling);
}

/** The wait that the server has asked for and up to a fifth more, so that agents do not return at the same moment. */
export function requestedDelay(afterMs: number, random: () => number = Math.random): number {
  return Math.round(boundedWait(afterMs) * (1 + random() * 0.2));
}

/** For a refusal that lasts until somebody acts: the agent keeps trying, but rarely. */
export function refusedDelay(failedAttempts: number, random: () => number = Math.random): number {
  const minutes = Math.min(2 * 2 ** Math.min(failedAttempts, 4), 15);
  return Math.round(minutes * 60_000 * (0.75 + random() * 0.5));
}

/** The heartbeat interval, varied by up to ten per cent. */
export function heartbeatDelay(nextInMs: number, random: () => number = Math.random): number {
  return Math.round(
    Math.min(Math.max(nextInMs, HEARTBEAT_MIN_MS), HEARTBEAT_MAX_MS) * (0.9 + random() * 0.2),
  );
}
