import { localTime, minuteOfDay } from './local-time.ts';

/** Clocks that were set forward: a part of the day that does not exist. */
export interface SkippedTime {
  /** When the clocks were set. */
  at: Date;
  /** The minute of the day that they showed then, before they were set. */
  from: number;
  minutes: number;
}

const MINUTE_MS = 60_000;
const DAY_MINUTES = 1440;
/** Longer than what a window of backups makes up for. */
const LOOK_BACK_MS = 180 * MINUTE_MS;

/** What was skipped in the last three hours. */
export function skippedBefore(now: Date, timeZone: string): SkippedTime | undefined {
  let [before, after] = [now.getTime() - LOOK_BACK_MS, now.getTime()];
  const offset = offsetAt(before, timeZone);
  const minutes = modulo(offsetAt(after, timeZone) - offset);
  if (minutes === 0 || minutes > DAY_MINUTES / 2) return undefined;
  while (after - before > MINUTE_MS) {
    const middle = (before + after) / 2;
    if (offsetAt(middle, timeZone) === offset) before = middle;
    else after = middle;
  }
  // Clocks are set at whole minutes.
  const at = new Date(Math.floor(after / MINUTE_MS) * MINUTE_MS);
  return { at, from: modulo(minuteOfDay(localTime(at, timeZone).clock) - minutes), minutes };
}

/** By how many minutes the clock on the wall is ahead of UTC, without whole days. */
function offsetAt(epochMs: number, timeZone: string): number {
  const at = new Date(epochMs);
  return modulo(minuteOfDay(localTime(at, timeZone).clock) - at.getUTCHours() * 60 - at.getUTCMinutes());
}

const modulo = (minutes: number) => ((minutes % DAY_MINUTES) + DAY_MINUTES) % DAY_MINUTES;
