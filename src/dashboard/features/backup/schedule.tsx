import { Group, Select, TextInput } from '@mantine/core';
import type { Frequency, ScheduleForm } from './schedule-form.ts';

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
  /** Whose time zone it is. */
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
