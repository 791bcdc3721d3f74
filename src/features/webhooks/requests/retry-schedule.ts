/** When a delivery that failed is tried again, and when the server stops to try. Nothing here has side effects. */

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** After the first attempt, the second and so on: 26 hours in all. */
const WAITS_MS = [
  5 * SECOND,
  30 * SECOND,
  2 * MINUTE,
  10 * MINUTE,
  30 * MINUTE,
  HOUR,
  2 * HOUR,
  4 * HOUR,
  8 * HOUR,
  10 * HOUR,
];
export const ATTEMPTS_MAX = WAITS_MS.length + 1;

/** Up to a fifth more, so that what failed together does not come back together. */
const JITTER = 0.2;

/**
 * How long a delivery waits after its attempt number `attempt` failed; undefined after the last one.
 * @param random  from 0 to 1
 */
export function retryWaitMs(attempt: number, random: number): number | undefined {
  const waitMs = WAITS_MS[attempt - 1];
  return waitMs === undefined ? undefined : Math.round(waitMs * (1 + random * JITTER));
}

/** A receiver is left alone after so many failures in a row. One attempt at a time then shows whether it is back. */
export const FAILURES_BEFORE_PAUSE = 3;
const LONGEST_PAUSE_MS = 5 * MINUTE;

/** How long nothing is sent to a receiver after so many failures in a row. */
export function pauseMs(failures: number): number {
  if (failures < FAILURES_BEFORE_PAUSE) return 0;
  return Math.min(5 * SECOND * 2 ** (failures - FAILURES_BEFORE_PAUSE), LONGEST_PAUSE_MS);
}

/** A webhook is disabled when nothing has been delivered for so long. */
export const FAILING_DAYS = 3;

const LONGEST_RETRY_AFTER_MS = 6 * HOUR;

/** The header `Retry-After`, in seconds or as a date; undefined where it is neither, or asks for nothing. */
export function retryAfterMs(header: string | null, now: Date): number | undefined {
  const text = header?.trim() ?? '';
  const ms = /^\d{1,9}$/.test(text) ? Number(text) * SECOND : Date.parse(text) - now.getTime();
  return ms > 0 ? Math.min(ms, LONGEST_RETRY_AFTER_MS) : undefined;
}
