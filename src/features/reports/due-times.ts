import { HOUR_MS, MINUTE_MS, DAY_MS } from '../../clock.ts';
import { clocksAt, instantOf } from '../../platform/local-time.ts';

/** When a monthly report is mailed, and about which month. Pure. */

export interface MonthlyTime {
  /** 1 to 28, which every month has. */
  dayOfMonth: number;
  /** Such as 08:30, on the clocks of the zone. */
  time: string;
  timezone: string;
}

/** The first due time after an instant. A time of day that the clocks skip is due when they have been set. */
export function nextDue({ dayOfMonth, time, timezone }: MonthlyTime, after: Date): Date {
  const [hours = 0, minutes = 0] = time.split(':').map(Number);
  const within = (dayOfMonth - 1) * DAY_MS + hours * HOUR_MS + minutes * MINUTE_MS;
  const local = new Date(clocksAt(after.getTime(), timezone));
  const dueIn = (month: number) =>
    new Date(instantOf(Date.UTC(local.getUTCFullYear(), month) + within, timezone));
  const due = dueIn(local.getUTCMonth());
  return due > after ? due : dueIn(local.getUTCMonth() + 1);
}

/** The last due time until an instant, of a schedule that was due at another one: what a server that was away makes up for. */
export function lastDue(schedule: MonthlyTime, dueAt: Date, now: Date): Date {
  let last = dueAt;
  for (let next = nextDue(schedule, last); next <= now; next = nextDue(schedule, next)) last = next;
  return last;
}

/** The month before the one that the clocks show at a due time, such as 2026-10. */
export function monthBefore(due: Date, timezone: string): string {
  const local = new Date(clocksAt(due.getTime(), timezone));
  return new Date(Date.UTC(local.getUTCFullYear(), local.getUTCMonth() - 1)).toISOString().slice(0, 7);
}
