import { Group, NumberInput, Select, SimpleGrid, TextInput } from '@mantine/core';
import { KEPT, type Frequency, type Kept, type PartProps } from './config-form.ts';

const FREQUENCIES: readonly { value: Frequency; label: string }[] = [
  { value: 'none', label: 'By hand only' },
  { value: 'hourly', label: 'Every hour' },
  { value: 'daily', label: 'Every day' },
  { value: 'weekly', label: 'Every week' },
  { value: 'monthly', label: 'Every month' },
];
const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const DAYS_OF_MONTH = 31;
const LABELS: Record<Kept, string> = {
  keepLast: 'Newest snapshots',
  keepDaily: 'Days',
  keepWeekly: 'Weeks',
  keepMonthly: 'Months',
  keepYearly: 'Years',
  immutableDays: 'Immutable for days',
};

/** Times are of the time zone of each device's site, unless the configuration names another. */
export function ScheduleFields({ form, set, faults }: PartProps) {
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
        description="In the time zone of each device’s site."
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

export function RetentionFields({ form, set, faults }: PartProps) {
  const change = (kind: Kept, value: number | string) => {
    const { [kind]: _, ...others } = form.kept;
    set({ kept: typeof value === 'number' ? { ...others, [kind]: value } : others });
  };
  return (
    <SimpleGrid cols={3} spacing="sm" role="group" aria-label="How many snapshots are kept">
      {KEPT.map((kind) => (
        <NumberInput
          key={kind}
          label={LABELS[kind]}
          min={0}
          allowDecimal={false}
          value={form.kept[kind] ?? ''}
          onChange={(value) => change(kind, value)}
          error={faults[`retention.${kind}`] ?? (kind === 'keepLast' ? faults['retention'] : undefined)}
        />
      ))}
    </SimpleGrid>
  );
}
