/** The times of a script schedule in the fields of a form, and in words. Pure. */

export const FREQUENCIES = [
  { value: 'hourly', label: 'Every hour' },
  { value: 'daily', label: 'Every day' },
  { value: 'weekly', label: 'On days of the week' },
  { value: 'monthly', label: 'On a day of the month' },
  { value: 'cron', label: 'By a cron expression' },
] as const;

/** In the order of cron, which counts them from Sunday. */
const DAY_NAMES = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'] as const;
export const DAYS = [1, 2, 3, 4, 5, 6, 0].map((day) => ({
  value: String(day),
  label: DAY_NAMES[day] ?? '',
}));
export const DAYS_OF_MONTH = [
  ...Array.from({ length: 28 }, (_, at) => ({ value: String(at + 1), label: `Day ${at + 1}` })),
  { value: 'L', label: 'The last day' },
];
export const MINUTES = Array.from({ length: 12 }, (_, at) => ({
  value: String(at * 5),
  label: `${at * 5} minutes past`,
}));

export interface TimesForm {
  frequency: (typeof FREQUENCIES)[number]['value'];
  /** With `hourly`. */
  minute: string;
  /** As in 02:30. */
  time: string;
  /** With `weekly`. */
  days: string[];
  /** With `monthly`. */
  dayOfMonth: string;
  cron: string;
}

const FIRST: TimesForm = {
  frequency: 'daily',
  minute: '0',
  time: '02:30',
  days: ['1'],
  dayOfMonth: '1',
  cron: '30 2 * * *',
};

const isOneOf = (options: readonly { value: string }[], value: string) =>
  options.some((option) => option.value === value);

/** The fields that make the expression; what no fields make is shown as it is. */
export function timesFormOf(cron: string | undefined): TimesForm {
  if (cron === undefined) return FIRST;
  const own: TimesForm = { ...FIRST, frequency: 'cron', cron };
  const [minute = '', hour = '', dayOfMonth = '', month = '', weekday = ''] = cron.split(' ');
  if (!/^\d+$/.test(minute) || month !== '*') return own;
  if (hour === '*') {
    const isHourly = dayOfMonth === '*' && weekday === '*' && isOneOf(MINUTES, minute);
    return isHourly ? { ...own, frequency: 'hourly', minute } : own;
  }
  if (!/^\d+$/.test(hour)) return own;
  const time = `${hour.padStart(2, '0')}:${minute.padStart(2, '0')}`;
  if (dayOfMonth === '*' && weekday === '*') return { ...own, frequency: 'daily', time };
  if (dayOfMonth === '*' && weekday.split(',').every((day) => isOneOf(DAYS, day))) {
    return { ...own, frequency: 'weekly', time, days: weekday.split(',') };
  }
  return weekday === '*' && isOneOf(DAYS_OF_MONTH, dayOfMonth)
    ? { ...own, frequency: 'monthly', time, dayOfMonth }
    : own;
}

export function cronOf({ frequency, minute, time, days, dayOfMonth, cron }: TimesForm): string {
  const [hours = '', minutes = ''] = time.split(':');
  const at = `${Number(minutes)} ${Number(hours)}`;
  switch (frequency) {
    case 'hourly':
      return `${minute} * * * *`;
    case 'daily':
      return `${at} * * *`;
    case 'weekly':
      return `${at} * * ${[...days].sort().join(',')}`;
    case 'monthly':
      return `${at} ${dayOfMonth} * *`;
    case 'cron':
      return cron;
    default:
      return frequency satisfies never;
  }
}

const and = new Intl.ListFormat('en-GB', { type: 'conjunction' });

/** "Every day at 02:30, Europe/Berlin" */
export function timesText({ cron, timezone }: { cron: string; timezone: string }): string {
  return `${momentText(timesFormOf(cron))}, ${timezone}`;
}

function momentText(form: TimesForm): string {
  const { frequency, minute, time, days, dayOfMonth, cron } = form;
  switch (frequency) {
    case 'hourly':
      return minute === '0' ? 'Every hour' : `Every hour, ${minute} minutes past`;
    case 'daily':
      return `Every day at ${time}`;
    case 'weekly':
      return `${and.format(DAYS.filter(({ value }) => days.includes(value)).map(({ label }) => label))} at ${time}`;
    case 'monthly':
      return `${dayOfMonth === 'L' ? 'The last day' : `Day ${dayOfMonth}`} of each month at ${time}`;
    case 'cron':
      return `By ${cron}`;
    default:
      return frequency satisfies never;
  }
}
