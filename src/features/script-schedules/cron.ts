import { DAY_MS, MINUTE_MS } from '../../clock.ts';
import { nextRun } from '../../platform/jobs/schedules.ts';

/** When a schedule is due. Pure. */

export interface Times {
  cron: string;
  timezone: string;
}

/** Runs of a schedule are at least so far apart. */
export const SHORTEST_MINUTES = 5;

const FIELDS = 5;
const FIELD = /^[\d*,/A-Za-z#?-]+$/;
/** So many times after each other are looked at: more than a day of the shortest distance. */
const LOOKED_AT = 300;
/** A year by clocks that are not set: what is due less often is far apart. */
const FROM = new Date('2026-01-01T00:00:00Z');
const UNTIL = new Date('2027-02-01T00:00:00Z');

/** What is wrong with a cron expression; undefined if nothing is. */
export function cronFault(cron: string): string | undefined {
  const fields = cron.trim().split(/\s+/);
  if (fields.length !== FIELDS || !fields.every((field) => FIELD.test(field))) {
    return 'must have five fields: minute, hour, day of the month, month and weekday, such as 30 2 * * 1-5';
  }
  let at = timeAfter(cron, FROM);
  if (at === undefined) {
    return 'must be a cron expression that is due at some time, such as 30 2 * * 1-5';
  }
  for (let looked = 0; looked < LOOKED_AT && at !== undefined && at < UNTIL; looked++) {
    const next = timeAfter(cron, at);
    if (next !== undefined && next.getTime() - at.getTime() < SHORTEST_MINUTES * MINUTE_MS) {
      return `must not be due more often than every ${SHORTEST_MINUTES} minutes`;
    }
    at = next;
  }
  return undefined;
}

/** By clocks that are not set; undefined if it is never due again, or is no expression. */
function timeAfter(cron: string, after: Date): Date | undefined {
  try {
    return nextRun({ cron, timeZone: 'UTC' }, after);
  } catch {
    return undefined;
  }
}

export const nextSlot = ({ cron, timezone }: Times, after: Date): Date =>
  nextRun({ cron, timeZone: timezone }, after);

export function nextSlots(times: Times, after: Date, count: number): Date[] {
  const slots: Date[] = [];
  for (let at = after; slots.length < count; slots.push(at)) at = nextSlot(times, at);
  return slots;
}

const LOOK_BACK_MS = 2 * DAY_MS;

/**
 * What is to be made up for: of several times that were missed, the newest.
 * @param nextAt  the first time that has not been dealt with; it has come
 */
export function newestSlot(times: Times, nextAt: Date, now: Date): Date {
  // A schedule that is due often has a time within two days, and one that is not has few times before.
  const recent = new Date(now.getTime() - LOOK_BACK_MS);
  const first = recent > nextAt ? nextSlot(times, recent) : nextAt;
  let newest = first > now ? nextAt : first;
  for (let at = nextSlot(times, newest); at <= now; at = nextSlot(times, at)) newest = at;
  return newest;
}
