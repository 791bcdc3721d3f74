import { DAY_MS, MINUTE_MS } from '../../clock.ts';
import { Weekday } from '../partners/index.ts';
import { dayOf, instantOf, parseLocal } from '../../platform/local-time.ts';

/** When a window is in effect: once, or on days that follow from a rule. Pure. */

export interface Repeat {
  frequency: 'daily' | 'weekly' | 'monthly';
  /** With weekly. */
  days?: Weekday[] | undefined;
  /** With monthly: this or `nthWeekday`. */
  dayOfMonth?: number | 'last' | undefined;
  nthWeekday?: { nth: number | 'last'; day: Weekday } | undefined;
  /** The last date on which it may begin, such as 2027-03-31. */
  until?: string | undefined;
}

export interface Schedule {
  /** IANA name, such as Europe/Berlin. */
  timezone: string;
  /** On the clocks of the zone: 2026-12-24T22:00. With `repeat` it happens first on the first day from then on that fits. */
  start: string;
  /** Real minutes, also when clocks are set in between. */
  durationMinutes: number;
  repeat: Repeat | null;
  /** When a person ended the occurrence that was in progress. */
  endedEarlyAt?: Date | null;
}

export interface Occurrence {
  startsAt: Date;
  endsAt: Date;
}

/**
 * From when on an occurrence was planned maintenance for a device that joins it now. Not before a person has planned it: an
 * outage is not made maintenance afterwards.
 * @param updatedAt  when a person has changed the window last
 * @param followedUntil  the end of the occurrence that was in progress when the devices were looked up before
 */
export function plannedFrom(
  { startsAt }: Occurrence,
  { updatedAt, followedUntil, now }: { updatedAt: Date; followedUntil: Date | null; now: Date },
): Date {
  const wasInProgress = followedUntil !== null && followedUntil > startsAt;
  // Devices that were there at the beginning have their rows.
  const known = wasInProgress ? now : updatedAt;
  return known > startsAt ? known : startsAt;
}

/** No occurrence begins later, so that each also ends in a year of four digits. */
const LAST_DAY = dayOf(Date.UTC(9999, 11, 20));
/** Clocks of two zones are at most 26 hours apart, and a zone may leave out a day. */
const DAYS_APART = 3;

/** The occurrences that end after an instant, in their order. There may be millions of them: whoever reads them has to stop. */
export function* occurrencesFrom(schedule: Schedule, from: Date): Generator<Occurrence> {
  const { timezone, durationMinutes } = schedule;
  const durationMs = durationMinutes * MINUTE_MS;
  const start = startOf(schedule);
  const timeOfDay = start - dayOf(start) * DAY_MS;
  let lastMs = Number.NEGATIVE_INFINITY;
  for (const day of daysOf(schedule, dayOf(from.getTime() - durationMs) - DAYS_APART)) {
    const startMs = instantOf(day * DAY_MS + timeOfDay, timezone);
    // A time of a day that the zone leaves out can be the first one of the next day.
    if (startMs <= lastMs || startMs + durationMs <= from.getTime()) continue;
    lastMs = startMs;
    const endMs = endOf(startMs, durationMs, schedule);
    if (endMs > from.getTime()) yield { startsAt: new Date(startMs), endsAt: new Date(endMs) };
  }
}

function endOf(startMs: number, durationMs: number, { endedEarlyAt }: Schedule): number {
  const earlyMs = endedEarlyAt?.getTime() ?? Number.NEGATIVE_INFINITY;
  return startMs <= earlyMs ? Math.min(startMs + durationMs, earlyMs) : startMs + durationMs;
}

/** The occurrences that have a part between two instants, and no more than some of them. */
export function occurrencesBetween(
  schedule: Schedule,
  { from, to }: { from: Date; to: Date },
  atMost: number,
): Occurrence[] {
  const found: Occurrence[] = [];
  for (const occurrence of occurrencesFrom(schedule, from)) {
    if (occurrence.startsAt >= to || found.length === atMost) break;
    found.push(occurrence);
  }
  return found;
}

/** The first occurrence that begins after an instant. */
export function nextOccurrence(schedule: Schedule, after: Date): Occurrence | undefined {
  for (const occurrence of occurrencesFrom(schedule, after)) {
    if (occurrence.startsAt > after) return occurrence;
  }
  return undefined;
}

/** The occurrence that an instant is in; the one that ends last if there are two. Its end is not in it. */
export function occurrenceAt(schedule: Schedule, at: Date): Occurrence | undefined {
  let current: Occurrence | undefined;
  for (const occurrence of occurrencesFrom(schedule, at)) {
    if (occurrence.startsAt > at) break;
    current = occurrence;
  }
  return current;
}

function startOf({ start }: Pick<Schedule, 'start'>): number {
  const localMs = parseLocal(start);
  if (localMs === undefined) throw new Error(`${start} is not a date and time`);
  return localMs;
}

/** The days of a schedule from a day on, in their order. */
function* daysOf({ start, repeat }: Pick<Schedule, 'start' | 'repeat'>, from: number): Generator<number> {
  const startDay = dayOf(startOf({ start }));
  const first = Math.max(startDay, from);
  if (repeat === null) {
    if (startDay >= first && startDay <= LAST_DAY) yield startDay;
    return;
  }
  const untilMs = repeat.until === undefined ? undefined : parseLocal(repeat.until);
  const last = untilMs === undefined ? LAST_DAY : Math.min(dayOf(untilMs), LAST_DAY);
  if (repeat.frequency === 'monthly') {
    yield* daysOfMonths(repeat, first, last);
    return;
  }
  const days = repeat.frequency === 'daily' ? Weekday.options : (repeat.days ?? []);
  if (days.length === 0) return;
  const fits = new Set(days.map((day) => Weekday.options.indexOf(day)));
  for (let day = first; day <= last; day++) if (fits.has(indexOf(day))) yield day;
}

function* daysOfMonths(repeat: Repeat, first: number, last: number): Generator<number> {
  const begin = new Date(first * DAY_MS);
  for (let month = begin.getUTCFullYear() * 12 + begin.getUTCMonth(); ; month++) {
    const day = dayInMonth(Math.floor(month / 12), month % 12, repeat);
    if (day > last) return;
    if (day >= first) yield day;
  }
}

/** @param month  0 to 11 */
function dayInMonth(year: number, month: number, { dayOfMonth, nthWeekday }: Repeat): number {
  const [begin, end] = [dayOf(Date.UTC(year, month, 1)), dayOf(Date.UTC(year, month + 1, 0))];
  if (nthWeekday === undefined) return dayOfMonth === 'last' ? end : begin + (dayOfMonth ?? 1) - 1;
  const { nth, day } = nthWeekday;
  const behind = (from: number, to: number) => (to - from + 7) % 7;
  const wanted = Weekday.options.indexOf(day);
  if (nth === 'last') return end - behind(wanted, indexOf(end));
  return begin + behind(indexOf(begin), wanted) + (nth - 1) * 7;
}

/** The weekday of a day, 0 for Monday: the first of January 1970 was a Thursday. */
const indexOf = (day: number) => (((day + 3) % 7) + 7) % 7;

export type ScheduleFault = [path: (string | number)[], rule: string];

/** What is wrong with a schedule whose fields are well-formed each by itself. */
export function scheduleFaults(schedule: Schedule): ScheduleFault[] {
  const { start, durationMinutes, repeat } = schedule;
  const startMs = parseLocal(start);
  // The field has its own fault.
  if (startMs === undefined) return [];
  if (dayOf(startMs) > LAST_DAY) return [[['start'], 'must not lie after 9999-12-20']];
  if (repeat === null) return [];
  const faults = [...repeatFaults(repeat)];
  const untilMs = repeat.until === undefined ? undefined : parseLocal(repeat.until);
  if (untilMs !== undefined && dayOf(untilMs) < dayOf(startMs)) {
    faults.push([['repeat', 'until'], 'must not lie before the day of the start']);
  }
  if (faults.length > 0) return faults;
  const apart = minutesApart(repeat);
  if (durationMinutes > apart) {
    return [[['durationMinutes'], `must not be longer than the ${apart} minutes until the next occurrence`]];
  }
  if (daysOf(schedule, dayOf(startMs)).next().done === true) {
    return [[['repeat', 'until'], 'leaves no day on which the window would begin']];
  }
  return [];
}

function* repeatFaults({ frequency, days, dayOfMonth, nthWeekday }: Repeat): Generator<ScheduleFault> {
  if (frequency === 'weekly' && days === undefined) yield [['repeat', 'days'], 'is required with weekly'];
  if (frequency !== 'weekly' && days !== undefined) yield [['repeat', 'days'], 'is for weekly only'];
  if (frequency !== 'monthly' && dayOfMonth !== undefined) {
    yield [['repeat', 'dayOfMonth'], 'is for monthly only'];
  }
  if (frequency !== 'monthly' && nthWeekday !== undefined) {
    yield [['repeat', 'nthWeekday'], 'is for monthly only'];
  }
  if (frequency === 'monthly' && (dayOfMonth === undefined) === (nthWeekday === undefined)) {
    yield [['repeat', 'dayOfMonth'], 'with monthly, either this or nthWeekday is required'];
  }
}

const DAY_MINUTES = DAY_MS / MINUTE_MS;

/** The least number of minutes from one beginning to the next, while no clocks are set. */
function minutesApart({ frequency, days = [] }: Repeat): number {
  if (frequency === 'daily') return DAY_MINUTES;
  if (frequency === 'monthly') return 28 * DAY_MINUTES;
  const chosen = Weekday.options.flatMap((day, index) => (days.includes(day) ? [index] : []));
  const gaps = chosen.map((index, at) => {
    const next = chosen[(at + 1) % chosen.length] ?? index;
    return (next - index + 7) % 7 || 7;
  });
  return Math.min(...gaps) * DAY_MINUTES;
}
