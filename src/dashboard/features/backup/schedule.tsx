import { Group, Select, TextInput } from '@mantine/core';
import type { BackupSchedule } from '../../api/index.ts';
import { formatWord } from '../../ui/index.ts';

/** The fields of a schedule, and how they become what the API takes. */
type Frequency = BackupSchedule['frequency'] | 'none';

export interface ScheduleForm {
  frequency: Frequency;
  time: string;
  dayOfWeek: string;
  dayOfMonth: string;
  windowStart: string;
  windowEnd: string;
}

/** Those of a schedule; `null`: there is none; `undefined`: those of something new. */
export const scheduleFormOf = (schedule: BackupSchedule | null | undefined): ScheduleForm => ({
  frequency: schedule === undefined ? 'daily' : (schedule?.frequency ?? 'none'),
  time: schedule?.time ?? (schedule === undefined ? '22:00' : ''),
  dayOfWeek: String(schedule?.dayOfWeek ?? 0),
  dayOfMonth: String(schedule?.dayOfMonth ?? 1),
  windowStart: schedule?.windowStart ?? '',
  windowEnd: schedule?.windowEnd ?? '',
});

/** Leaves out what is empty. */
export const given = <T extends Record<string, string>>(texts: T): Partial<T> => {
  const kept: Partial<T> = { ...texts };
  for (const name in kept) if (kept[name] === '') delete kept[name];
  return kept;
};

export function scheduleOf(form: ScheduleForm): BackupSchedule | null {
  const { frequency, time, windowStart, windowEnd } = form;
  if (frequency === 'none') return null;
  return {
    frequency,
    ...given({ time, windowStart, windowEnd }),
    ...(frequency === 'weekly' ? { dayOfWeek: Number(form.dayOfWeek) } : {}),
    ...(frequency === 'monthly'
      ? { dayOfMonth: form.dayOfMonth === 'last' ? ('last' as const) : Number(form.dayOfMonth) }
      : {}),
  };
}

/** "Daily at 22:00", "By hand". */
export function scheduleText(schedule: BackupSchedule | null): string {
  if (schedule === null) return 'By hand';
  const time = schedule.time ?? schedule.windowStart;
  return `${formatWord(schedule.frequency)}${time === undefined ? '' : ` at ${time}`}`;
}

const FREQUENCIES: readonly { value: Frequency; label: string }[] = [
  { value: 'none', label: 'By hand only' },
  { value: 'hourly', label: 'Every hour' },
  { value: 'daily', label: 'Every day' },
  { value: 'weekly', label: 'Every week' },
  { value: 'monthly', label: 'Every month' },
];
const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
/** Days that every month has. */
const DAYS_OF_MONTH = 28;
/** When something is due. */
export function ScheduleFields({
  form,
  set,
  faults,
  description,
}: {
  form: ScheduleForm;
  set: (change: Partial<ScheduleForm>) => void;
  /** The rule that a field breaks, by its path. */
  faults: Record<string, string>;
  /** The owner of the time zone. */
  description: string;
}) {
  const time = (name: 'time' | 'windowStart' | 'windowEnd', label: string) => (
    <TextInput
      type="time"
      label={label}
      value={form[name]}
      onChange={(event) => set({ [name]: event.currentTarget.value })}
      error={faults[`schedule.${name}`]}
    />
  );
  return (
    <>
      <Select
        label="How often"
        description={description}
        allowDeselect={false}
        data={FREQUENCIES}
        value={form.frequency}
        onChange={(value) =>
          set({ frequency: FREQUENCIES.find((one) => one.value === value)?.value ?? 'none' })
        }
        error={faults['schedule']}
      />
      {form.frequency !== 'none' && (
        <Group grow align="flex-start">
          {time('time', 'At')}
          {time('windowStart', 'Not before')}
          {time('windowEnd', 'Not after')}
        </Group>
      )}
      {form.frequency === 'weekly' && (
        <Select
          label="Day of the week"
          allowDeselect={false}
          data={DAYS.map((label, day) => ({ value: String(day), label }))}
          value={form.dayOfWeek}
          onChange={(value) => set({ dayOfWeek: value ?? '0' })}
          error={faults['schedule.dayOfWeek']}
        />
      )}
      {form.frequency === 'monthly' && (
        <Select
          label="Day of the month"
          allowDeselect={false}
          data={[
            ...Array.from({ length: DAYS_OF_MONTH }, (_, day) => String(day + 1)),
            { value: 'last', label: 'The last one' },
          ]}
          value={form.dayOfMonth}
          onChange={(value) => set({ dayOfMonth: value ?? '1' })}
          error={faults['schedule.dayOfMonth']}
        />
      )}
    </>
  );
}

/** "Europe/Berlin" */
export const timeZone = (): string => new Intl.DateTimeFormat().resolvedOptions().timeZone;
