import { clocksAt } from '../../platform/local-time.ts';
import type { WeeklyHours } from './policy.schema.ts';

/** Whether a moment lies within the hours of some days, by the clock on the wall of a time zone. Pure. */

/** @returns the day of the week, 0 for Sunday, and the time as in 08:30 */
export function wallClock(at: Date, timeZone: string): { day: number; time: string } {
  const clocks = new Date(clocksAt(at.getTime(), timeZone));
  return { day: clocks.getUTCDay(), time: clocks.toISOString().slice(11, 16) };
}

/** Hours that pass midnight belong to the day on which they begin. */
export function isWithinHours({ days, from, to, timezone }: WeeklyHours, at: Date): boolean {
  const { day, time } = wallClock(at, timezone);
  const isOn = (begin: number) => days === undefined || days.includes(begin);
  // Times in this form sort as text.
  if (from < to) return isOn(day) && time >= from && time < to;
  return time >= from ? isOn(day) : time < to && isOn((day + 6) % 7);
}
