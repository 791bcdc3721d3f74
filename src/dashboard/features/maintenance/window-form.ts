import type { MaintenanceRepeat, MaintenanceWindow } from '../../api/index.ts';
import { formatDuration } from '../../ui/index.ts';

/** Windows as forms and lists have them: the parts of a rule in fields of their own, and rules in words. */

export const DAYS = [
  { value: 'mon', label: 'Monday' },
  { value: 'tue', label: 'Tuesday' },
  { value: 'wed', label: 'Wednesday' },
  { value: 'thu', label: 'Thursday' },
  { value: 'fri', label: 'Friday' },
  { value: 'sat', label: 'Saturday' },
  { value: 'sun', label: 'Sunday' },
] as const;
export type Day = (typeof DAYS)[number]['value'];

export const NTHS = [
  { value: '1', label: 'First' },
  { value: '2', label: 'Second' },
  { value: '3', label: 'Third' },
  { value: '4', label: 'Fourth' },
  { value: 'last', label: 'Last' },
] as const;

const LAST_DAY_OF_MONTH = 28;
export const DAYS_OF_MONTH = [
  ...Array.from({ length: LAST_DAY_OF_MONTH }, (_, index) => String(index + 1)),
  'last',
].map((value) => ({ value, label: value === 'last' ? 'The last day' : `Day ${value}` }));

export const REPEATS = [
  { value: 'once', label: 'Once' },
  { value: 'daily', label: 'Every day' },
  { value: 'weekly', label: 'Every week' },
  { value: 'monthlyDay', label: 'Every month, on a day of the month' },
  { value: 'monthlyWeekday', label: 'Every month, on a weekday' },
] as const;

/** The times of a window, in the fields of the form. */
export interface Times {
  timezone: string;
  day: string;
  time: string;
  durationMinutes: number | undefined;
  repeat: (typeof REPEATS)[number]['value'];
  days: string[];
  dayOfMonth: string;
  nth: string;
  weekday: Day;
  until: string | undefined;
}

export const OWN_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

const twoDigits = (part: number) => String(part).padStart(2, '0');
export const dayText = (at: Date): string =>
  `${at.getFullYear()}-${twoDigits(at.getMonth() + 1)}-${twoDigits(at.getDate())}`;

/** A window of two hours this evening, on the clocks of this computer. */
const newTimes = (now: Date): Times => ({
  timezone: OWN_ZONE,
  day: dayText(now),
  time: '22:00',
  durationMinutes: 120,
  repeat: 'once',
  days: [],
  dayOfMonth: '1',
  nth: '2',
  weekday: 'tue',
  until: undefined,
});

export function timesOf(window: MaintenanceWindow | undefined, now: Date): Times {
  if (window === undefined) return newTimes(now);
  const { timezone, start, durationMinutes, repeat } = window;
  const [day = '', time = ''] = start.split('T');
  return { ...newTimes(now), timezone, day, time, durationMinutes, ...fieldsOf(repeat) };
}

function fieldsOf(repeat: MaintenanceRepeat | null): Partial<Times> {
  if (repeat === null) return {};
  const { frequency, days = [], dayOfMonth, nthWeekday, until } = repeat;
  const rule: Partial<Times> = { days: [...(days ?? [])], until: until ?? undefined };
  if (frequency !== 'monthly') return { ...rule, repeat: frequency };
  if (nthWeekday === undefined || nthWeekday === null) {
    return { ...rule, repeat: 'monthlyDay', dayOfMonth: String(dayOfMonth) };
  }
  return { ...rule, repeat: 'monthlyWeekday', nth: String(nthWeekday.nth), weekday: nthWeekday.day };
}

const numberOrLast = (text: string): number | 'last' => (text === 'last' ? text : Number(text));

/** The times as the API takes them. */
export function scheduleOf(times: Times) {
  const { timezone, day, time, durationMinutes = 0 } = times;
  return { timezone, start: `${day}T${time}`, durationMinutes, repeat: ruleOf(times) };
}

function ruleOf({ repeat, days, dayOfMonth, nth, weekday, until }: Times): MaintenanceRepeat | null {
  const end = until === undefined ? {} : { until };
  switch (repeat) {
    case 'once':
      return null;
    case 'daily':
      return { frequency: 'daily', ...end };
    case 'weekly':
      return {
        frequency: 'weekly',
        days: DAYS.flatMap(({ value }) => (days.includes(value) ? [value] : [])),
        ...end,
      };
    case 'monthlyDay':
      return { frequency: 'monthly', dayOfMonth: numberOrLast(dayOfMonth), ...end };
    case 'monthlyWeekday':
      return { frequency: 'monthly', nthWeekday: { nth: numberOrLast(nth), day: weekday }, ...end };
    default:
      return repeat satisfies never;
  }
}

const labelIn = (options: readonly { value: string; label: string }[], value: unknown): string =>
  options.find((option) => option.value === String(value))?.label ?? String(value);

/** "Every Monday and Friday at 22:00 (Europe/Berlin), for 2 h, until 2027-03-31". */
export function scheduleText({
  timezone,
  start,
  durationMinutes,
  repeat,
}: Pick<MaintenanceWindow, 'timezone' | 'start' | 'durationMinutes' | 'repeat'>): string {
  const [day = '', time = ''] = start.split('T');
  const length = `for ${formatDuration(durationMinutes * 60_000)}`;
  const end = repeat?.until == null ? '' : `, until ${repeat.until}`;
  return `${repeat === null ? `Once, on ${day}` : ruleText(repeat)} at ${time} (${timezone}), ${length}${end}`;
}

function ruleText({ frequency, days, dayOfMonth, nthWeekday }: MaintenanceRepeat): string {
  if (frequency === 'daily') return 'Every day';
  if (frequency === 'weekly') {
    const names = (days ?? []).map((day) => labelIn(DAYS, day));
    return `Every ${new Intl.ListFormat('en').format(names)}`;
  }
  if (nthWeekday != null) {
    return `The ${labelIn(NTHS, nthWeekday.nth).toLowerCase()} ${labelIn(DAYS, nthWeekday.day)} of every month`;
  }
  return `${labelIn(DAYS_OF_MONTH, dayOfMonth)} of every month`;
}

/** What stays quiet, in words. */
export function quietText({ alerts, upgrades }: MaintenanceWindow['suppress']): string {
  if (alerts && upgrades) return 'Alerts and upgrades';
  if (alerts) return 'Alerts';
  return upgrades ? 'Upgrades' : 'Nothing';
}
