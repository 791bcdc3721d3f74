import { Select } from '@mantine/core';
import { TIME_ZONES } from '../../../ui/index.ts';
import type { PartProps } from './config-form.ts';

/** The time zone of a schedule. One that the browser does not know stays where it is set. */
export const TimeZoneField = ({ form: { timezone }, set, faults }: PartProps) => (
  <Select
    label="Time zone"
    placeholder="That of each device’s site"
    searchable
    clearable
    limit={100}
    data={timezone === '' || TIME_ZONES.includes(timezone) ? TIME_ZONES : [timezone, ...TIME_ZONES]}
    value={timezone === '' ? null : timezone}
    onChange={(next) => set({ timezone: next ?? '' })}
    error={faults['schedule.timezone']}
  />
);
