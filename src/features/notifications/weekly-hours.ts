import type { WeeklyHours } from './policy.schema.ts';

/** Whether a moment lies within the hours of some days, by the clock on the wall of a time zone. Pure. */

const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(timeZone: string): Intl.DateTimeFormat {
  let format = formats.get(timeZone);
  if (format === undefined) {
    format = new Intl.DateTimeFormat('en-US', {
      timeZone,
      hourCycle: 'h23',
      weekday: 'short',
      hour: '2-digit',
      minute: '2-digit',
    });
    // There are some hundred time zones, so this cannot grow without limit.
    formats.set(timeZone, format);
  }
  return format;
}

const DAYS = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'];

/** @returns the day of the week, 0 for Sunday, and the time as in 08:30 */
export function wallClock(at: Date, timeZone: string): { day: number; time: string } {
  const parts = new Map(
    formatOf(timeZone)
      .formatToParts(at)
      .map(({ type, value }) => [type, value]),
  );
  return {
    day: DAYS.indexOf(parts.get('weekday') ?? ''),
    time: `${parts.get('hour')}:${parts.get('minute')}`,
  };
}

/** Hours that pass midnight belong to the day on which they begin. */
export function isWithinHours({ days, from, to, timezone }: WeeklyHours, at: Date): boolean {
  const { day, time } = wallClock(at, timezone);
  const isOn = (begin: number) => days === undefined || days.includes(begin);
  // Times in this form sort as text.
  if (from < to) return isOn(day) && time >= from && time < to;
  return time >= from ? isOn(day) : time < to && isOn((day + 6) % 7);
}
