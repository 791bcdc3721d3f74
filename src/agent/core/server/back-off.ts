/** How long to wait before the next try. Pure: the randomness is the caller's. */

const BASE_MS = 1000;
const CAP_MS = 60_000;

/** However long the server asks the agent to wait: longer than this, and nobody could call it back. */
const ASKED_MAX_MS = 4 * 3_600_000;
/** More often than this nobody needs a heartbeat; a timer that is given more than 24 days would fire at once. */
const HEARTBEAT_MIN_MS = 50;
const HEARTBEAT_MAX_MS = 3_600_000;

export const boundedWait = (askedMs: number) => Math.min(Math.max(0, askedMs), ASKED_MAX_MS);

/** Doubles with each failed try, up to a minute, with full jitter: a fleet that was cut off at once comes back spread. */
export function reconnectDelay(failedTries: number, random: () => number = Math.random): number {
  const ceiling = Math.min(CAP_MS, BASE_MS * 2 ** Math.min(failedTries, 16));
  return Math.round(BASE_MS / 4 + random() * ceiling);
}

/** What the server asked for, and a little more, so that not all who heard the same come back in the same instant. */
export function askedDelay(afterMs: number, random: () => number = Math.random): number {
  return Math.round(boundedWait(afterMs) * (1 + random() * 0.2));
}

/** Refused for a reason that only people can mend: kept up, but rarely. */
export function refusedDelay(failedTries: number, random: () => number = Math.random): number {
  const minutes = Math.min(2 * 2 ** Math.min(failedTries, 4), 15);
  return Math.round(minutes * 60_000 * (0.75 + random() * 0.5));
}

/** A heartbeat's interval, ten per cent up or down. */
export function heartbeatDelay(nextInMs: number, random: () => number = Math.random): number {
  return Math.round(
    Math.min(Math.max(nextInMs, HEARTBEAT_MIN_MS), HEARTBEAT_MAX_MS) * (0.9 + random() * 0.2),
  );
}
