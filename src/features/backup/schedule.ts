import { nextRun } from '../../../platform/jobs/cron.ts';
import { type BackupSchedule, isWithin } from './schedule.schema.ts';
import { localTime, minuteOfDay } from './local-time.ts';
import { skippedBefore } from './skipped-time.ts';

/**
 * When a configuration is due. A slot is a nominal time of its schedule; each device has at most one backup of a slot,
 * and begins it some seconds later, so that a fleet does not begin at once.
 */

const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;
const DAY_MINUTES = 1440;

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
/** Where the window is shorter than an hour and misses the minute of the schedule, `isEverDue` has refused it. */
const MAX_TRIES = 100;

/** Says whether an hourly schedule has a slot in its window at all. Other schedules always have slots. */
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

/** So many minutes of its length a window keeps at least where clocks are set forward over its begin, or within it. */
const KEPT_MINUTES = 60;

/**
 * Whether backups may begin now. Without a window they always may. Where clocks are set forward over the begin of a
 * window, it is open from that moment on, for its length or at least an hour of it; over its end, it keeps its length;
 * within it, it keeps at least an hour. So a night in spring has its backup.
 */
export function isWindowOpen(
  { windowStart, windowEnd }: BackupSchedule,
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
  /** Minutes for which the window was open before the change; its length or more where that was outside of it. */
  const before = (DAY_MINUTES - behind(windowStart)) % DAY_MINUTES;
  const isBeginSkipped = behind(windowStart) < skipped.minutes;
  const isEndSkipped = behind(windowEnd) < skipped.minutes;
  const openMinutes = Math.max(
    isBeginSkipped ? Math.min(length, Math.max(skipped.minutes, KEPT_MINUTES)) : 0,
    isEndSkipped ? behind(windowEnd) : 0,
    !isBeginSkipped && before < length ? kept - before : 0,
  );
  return now.getTime() - skipped.at.getTime() < openMinutes * MINUTE_MS;
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
