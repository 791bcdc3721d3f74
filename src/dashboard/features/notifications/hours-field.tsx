import { Group, Input, Select, Stack, Switch, TextInput } from '@mantine/core';
import type { WeeklyHours } from '../../api/index.ts';
import { ChipChoice, TIME_ZONES } from '../../ui/index.ts';
import { asBeginning, DAY_NAMES, hoursText, WEEK } from './policy-text.ts';

const DAYS = WEEK.map(String);

/** The time zone of this computer. */
const ownTimeZone = (): string => new Intl.DateTimeFormat().resolvedOptions().timeZone;

/** Hours of some days, or none. */
export function HoursField({
  label,
  description,
  first,
  value,
  onChange,
  error,
}: {
  label: string;
  description: string;
  /** What is there when it is switched on. */
  first: Omit<WeeklyHours, 'timezone'>;
  value: WeeklyHours | null;
  onChange: (hours: WeeklyHours | null) => void;
  error: string | undefined;
}) {
  const set = (change: Partial<WeeklyHours>) => value !== null && onChange({ ...value, ...change });
  const chosen = value?.days ?? WEEK;
  return (
    <Stack gap="xs" role="group" aria-label={label}>
      <Switch
        label={label}
        description={value === null ? description : `${asBeginning(hoursText(value))}.`}
        checked={value !== null}
        onChange={(event) =>
          onChange(event.currentTarget.checked ? { ...first, timezone: ownTimeZone() } : null)
        }
      />
      {value !== null && (
        <>
          <ChipChoice
            label={`${label}: days`}
            values={DAYS}
            nameOf={(day) => DAY_NAMES[Number(day)] ?? day}
            chosen={chosen.map(String)}
            onChange={(days) => set({ days: days.map(Number) })}
          />
          <Group grow align="flex-start">
            <TextInput
              type="time"
              label="From"
              required
              value={value.from}
              onChange={(event) => set({ from: event.currentTarget.value })}
            />
            <TextInput
              type="time"
              label="To"
              required
              value={value.to}
              onChange={(event) => set({ to: event.currentTarget.value })}
            />
            <Select
              label="Time zone"
              searchable
              allowDeselect={false}
              limit={100}
              data={TIME_ZONES.includes(value.timezone) ? TIME_ZONES : [value.timezone, ...TIME_ZONES]}
              value={value.timezone}
              onChange={(zone) => zone !== null && set({ timezone: zone })}
            />
          </Group>
        </>
      )}
      {error !== undefined && <Input.Error>{error}</Input.Error>}
    </Stack>
  );
}
