import { clocksAt } from '../../platform/local-time.ts';
import { DAY_MS, MINUTE_MS } from '../../clock.ts';
import { z } from 'zod';
import { ClockTime, TimeZone } from '../../platform/http/fields.ts';
import { nextRun } from '../../platform/jobs/schedules.ts';

const HOURLY_TIME = 'With `hourly` only the minutes count.';

const fields = z.strictObject({
  frequency: z.enum(['hourly', 'daily', 'weekly', 'monthly']),
  time: ClockTime.optional().describe(`Default: \`windowStart\`, else 00:00. ${HOURLY_TIME}`),
  timezone: TimeZone.optional().describe('Default: the time zone of the device’s site.'),
  dayOfWeek: z.number().int().min(0).max(6).optional().describe('With `weekly`; 0 is Sunday.'),
  dayOfMonth: z
    .union([z.number().int().min(1).max(28), z.literal('last')])
    .optional()
    .describe('With `monthly`.'),
  windowStart: ClockTime.optional().describe('Backups begin within the window only.'),
  windowEnd: ClockTime.optional().describe('On the next day if it lies before `windowStart`.'),
});
type Fields = z.infer<typeof fields>;

/** When a configuration is due. */
export const BackupSchedule = fields
  .superRefine((schedule, context) => {
    for (const [field, message] of faultsOf(schedule)) {
      context.addIssue({ code: 'custom', path: [field], message });
    }
  })
  .meta({ id: 'BackupSchedule' });
export type BackupSchedule = z.infer<typeof BackupSchedule>;

function* faultsOf(schedule: Fields): Generator<[keyof Fields, string]> {
  const { frequency, time, dayOfWeek, dayOfMonth, windowStart, windowEnd } = schedule;
  if (frequency === 'weekly' && dayOfWeek === undefined) yield ['dayOfWeek', 'is required with weekly'];
  if (frequency !== 'weekly' && dayOfWeek !== undefined) yield ['dayOfWeek', 'is for weekly only'];
  if (frequency === 'monthly' && dayOfMonth === undefined) yield ['dayOfMonth', 'is required with monthly'];
  if (frequency !== 'monthly' && dayOfMonth !== undefined) yield ['dayOfMonth', 'is for monthly only'];
  if (windowStart === undefined && windowEnd !== undefined) {
    yield ['windowStart', 'is required with windowEnd'];
  } else if (windowStart !== undefined && windowEnd === undefined) {
    yield ['windowEnd', 'is required with windowStart'];
  } else if (windowStart !== undefined && windowEnd !== undefined) {
    const isInside = frequency === 'hourly' || time === undefined || isWithin(time, windowStart, windowEnd);
    if (windowStart === windowEnd) yield ['windowEnd', 'must differ from windowStart'];
    else if (!isInside) yield ['time', 'must lie within the window'];
  }
}

/** Compares times in the form of `ClockTime`, which sort as text. */
const isWithin = (time: string, start: string, end: string): boolean =>
  start < end ? time >= start && time < end : time >= start || time < end;

/**
 * When a configuration is due. A slot is a nominal time of its schedule; each device has at most one backup of a slot,
 * and begins it some seconds later, so that a fleet does not begin at once.
 */

/** Longer than the time between two slots. */
const LOOK_BACK_MS: Record<BackupSchedule['frequency'], number> = {
  // Its window may be open for one hour of the day.
  hourly: 2 * DAY_MS,
  daily: 2 * DAY_MS,
  weekly: 8 * DAY_MS,
  monthly: 33 * DAY_MS,
};
const SPREAD_SECONDS: Record<BackupSchedule['frequency'], number> = {
  hourly: 600,
  daily: 1800,
  weekly: 1800,
  monthly: 1800,
};

/** The first slot after `after`. An hourly schedule has slots within its window only. */
export function nextSlot(schedule: BackupSchedule, timeZone: string, after: Date): Date {
  const cron = cronOf(schedule);
  // A window is shorter than a day, and most are open at least once in an hour of each day.
  for (let at = after, tries = 0; tries < MAX_TRIES; tries++) {
    at = nextRun({ cron, timeZone }, at);
    if (hasSlotAt(schedule, timeZone, at)) return at;
  }
  throw new Error(`The schedule ${JSON.stringify(schedule)} in ${timeZone} has no slot`);
}
/** If the window is shorter than an hour and misses the minute of the schedule, `isEverDue` has refused it. */
const MAX_TRIES = 100;

/** Whether an hourly schedule has a slot in its window at all. Other schedules always have slots. */
export function isEverDue({ frequency, time = '00:00', windowStart, windowEnd }: BackupSchedule): boolean {
  if (frequency !== 'hourly' || windowStart === undefined || windowEnd === undefined) return true;
  const minutes = time.slice(3);
  return Array.from({ length: 24 }, (_, hour) => `${String(hour).padStart(2, '0')}:${minutes}`).some(
    (clock) => isWithin(clock, windowStart, windowEnd),
  );
}

/** The newest slot that has come: later than `after`, and not later than `until`. Of several missed ones it is the last. */
export function newestSlot(
  schedule: BackupSchedule,
  timeZone: string,
  { after, until }: { after: Date; until: Date },
): Date | undefined {
  const from = Math.max(after.getTime(), until.getTime() - LOOK_BACK_MS[schedule.frequency]);
  let newest: Date | undefined;
  for (let at = nextSlot(schedule, timeZone, new Date(from)); at <= until; ) {
    newest = at;
    at = nextSlot(schedule, timeZone, at);
  }
  return newest;
}

/** So many minutes of its length a window keeps at least if clocks are set forward over its begin, or within it. */
const KEPT_MINUTES = 60;

/**
 * Whether backups may begin now. Without a window they always may. If clocks are set forward over the begin of a
 * window, it is open from that moment on, for its length or at least an hour of it; over its end, it keeps its length;
 * within it, it keeps at least an hour, and what it has of an hour after the time of its backups. So a night in spring
 * has its backup.
 */
export function isWindowOpen(
  { frequency, time, windowStart, windowEnd }: BackupSchedule,
  timeZone: string,
  now: Date,
): boolean {
  if (windowStart === undefined || windowEnd === undefined) return true;
  if (isWithin(localTime(now, timeZone).clock, windowStart, windowEnd)) return true;
  const skipped = skippedBefore(now, timeZone);
  if (skipped === undefined) return false;
  const behind = (clock: string) => (minuteOfDay(clock) - skipped.from + DAY_MINUTES) % DAY_MINUTES;
  const length = (minuteOfDay(windowEnd) - minuteOfDay(windowStart) + DAY_MINUTES) % DAY_MINUTES;
  const kept = Math.min(length, KEPT_MINUTES);
  /** Minutes for which the window was open before the change; its length or more if that was outside of it. */
  const before = (DAY_MINUTES - behind(windowStart)) % DAY_MINUTES;
  /** Of the hour after the time of backups, in which all devices begin. Those whose time is skipped begin at the change. */
  const leftAfter = (clock: string) => {
    const afterTime = (minuteOfDay(windowEnd) - minuteOfDay(clock) + DAY_MINUTES) % DAY_MINUTES;
    const since = behind(clock) < skipped.minutes ? 0 : DAY_MINUTES - behind(clock);
    return Math.min(afterTime, KEPT_MINUTES) - since;
  };
  const isBeginSkipped = behind(windowStart) < skipped.minutes;
  const isEndSkipped = behind(windowEnd) < skipped.minutes;
  const openMinutes = Math.max(
    frequency === 'hourly' || time === undefined ? 0 : leftAfter(time),
    isBeginSkipped ? Math.min(length, Math.max(skipped.minutes, KEPT_MINUTES)) : 0,
    isEndSkipped ? behind(windowEnd) : 0,
    !isBeginSkipped && before < length ? kept - before : 0,
  );
  return now.getTime() - skipped.at.getTime() < openMinutes * MINUTE_MS;
}

/** For how many minutes of a day the window of a schedule is closed; 0 without one. */
export const closedMinutes = ({
  windowStart,
  windowEnd,
}: {
  windowStart: string | null;
  windowEnd: string | null;
}): number =>
  windowStart === null || windowEnd === null
    ? 0
    : (minuteOfDay(windowStart) - minuteOfDay(windowEnd) + DAY_MINUTES) % DAY_MINUTES;

/** When the window of a schedule that has one opens next. */
export function windowOpensAt({ windowStart }: BackupSchedule, timeZone: string, now: Date): Date {
  const [hour, minute] = (windowStart ?? '00:00').split(':').map(Number);
  return nextRun({ cron: `${minute} ${hour} * * *`, timeZone }, now);
}

/** Over how many seconds the devices of a slot are spread. */
export function spreadSeconds({ frequency, time, windowStart, windowEnd }: BackupSchedule): number {
  if (windowStart === undefined || windowEnd === undefined) return SPREAD_SECONDS[frequency];
  // Within an hourly window the last slot may lie just before its end.
  const begin = frequency === 'hourly' ? windowStart : (time ?? windowStart);
  const minutes = (minuteOfDay(windowEnd) - minuteOfDay(begin) + 1440) % 1440;
  return Math.min(SPREAD_SECONDS[frequency], Math.max(minutes - 1, 0) * 60 + 1);
}

function hasSlotAt(schedule: BackupSchedule, timeZone: string, at: Date): boolean {
  return schedule.frequency !== 'hourly' || isWindowOpen(schedule, timeZone, at);
}

function cronOf({ frequency, time, windowStart, dayOfWeek, dayOfMonth }: BackupSchedule): string {
  const begin = time ?? (frequency === 'hourly' ? '00:00' : (windowStart ?? '00:00'));
  const [hour, minute] = begin.split(':').map(Number);
  switch (frequency) {
    case 'hourly':
      return `${minute} * * * *`;
    case 'daily':
      return `${minute} ${hour} * * *`;
    case 'weekly':
      return `${minute} ${hour} * * ${dayOfWeek}`;
    case 'monthly':
      return `${minute} ${hour} ${dayOfMonth === 'last' ? 'L' : dayOfMonth} * *`;
    default:
      return frequency satisfies never;
  }
}

/** The clock on the wall in a time zone. */

/** @param clock  as in 08:30 */
function minuteOfDay(clock: string): number {
  const [hours = 0, minutes = 0] = clock.split(':').map(Number);
  return hours * 60 + minutes;
}

export interface LocalTime {
  year: number;
  /** 1 to 12. */
  month: number;
  day: number;
  /** As in 08:30. */
  clock: string;
}

export function localTime(at: Date, timeZone: string): LocalTime {
  const clocks = new Date(clocksAt(at.getTime(), timeZone));
  return {
    year: clocks.getUTCFullYear(),
    month: clocks.getUTCMonth() + 1,
    day: clocks.getUTCDate(),
    clock: clocks.toISOString().slice(11, 16),
  };
}

/** Clocks that were set forward: a part of the day that does not exist. */
interface SkippedTime {
  /** When the clocks were set. */
  at: Date;
  /** The minute of the day that they showed then, before they were set. */
  from: number;
  minutes: number;
}

export const DAY_MINUTES = 1440;
/** Longer than what a window of backups makes up for. */
const SHIFT_LOOK_BACK_MS = 180 * MINUTE_MS;

/** The time by which clocks were set forward in the last three hours. */
function skippedBefore(now: Date, timeZone: string): SkippedTime | undefined {
  let [before, after] = [now.getTime() - SHIFT_LOOK_BACK_MS, now.getTime()];
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
