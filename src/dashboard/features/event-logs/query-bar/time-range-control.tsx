import { Button, Group, Menu, Stack, Text, TextInput } from '@mantine/core';
import { IconCalendarTime } from '@tabler/icons-react';
import { useState } from 'react';
import { fieldTimeIn, instantIn, LOCAL_ZONE, shortTimeIn } from '../model/log-time.ts';
import { TIME_PRESETS, type TimeRange } from '../model/time-range.ts';

/** The times that are read: a preset, or two ends, in the time zone that the entries are shown in. */
export function TimeRangeControl({
  value,
  zone,
  onChange,
}: {
  value: TimeRange;
  zone: string;
  onChange: (range: TimeRange) => void;
}) {
  const [isOpen, setOpen] = useState(false);
  const choose = (range: Partial<TimeRange>) => {
    onChange({ range: undefined, from: undefined, to: undefined, ...range });
    setOpen(false);
  };
  return (
    <Menu opened={isOpen} onChange={setOpen} position="bottom-start" width={290}>
      <Menu.Target>
        <Button
          variant="default"
          leftSection={<IconCalendarTime size={14} aria-hidden />}
          aria-label={`Time: ${textOf(value, zone)}`}
        >
          {textOf(value, zone)}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item onClick={() => choose({})}>Any time</Menu.Item>
        {TIME_PRESETS.map(({ value: range, label }) => (
          <Menu.Item key={range} onClick={() => choose({ range })}>
            {label}
          </Menu.Item>
        ))}
        <Menu.Divider />
        <FixedRange key={`${value.from}-${value.to}-${zone}`} value={value} zone={zone} onChange={choose} />
      </Menu.Dropdown>
    </Menu>
  );
}

function FixedRange({
  value,
  zone,
  onChange,
}: {
  value: TimeRange;
  zone: string;
  onChange: (range: TimeRange) => void;
}) {
  const [from, setFrom] = useState(fieldOf(value.from, zone));
  const [to, setTo] = useState(fieldOf(value.to, zone));
  const [start, end] = [instantIn(zone, from), instantIn(zone, to)];
  const isReversed = start !== undefined && end !== undefined && start > end;
  return (
    <Stack gap={6} p="xs">
      <Text size="xs">{zone === LOCAL_ZONE ? `In your time zone, ${zone}` : `In the time zone ${zone}`}</Text>
      <TextInput
        type="datetime-local"
        step={1}
        label="From"
        value={from}
        onChange={(event) => setFrom(event.currentTarget.value)}
      />
      <TextInput
        type="datetime-local"
        step={1}
        label="To"
        value={to}
        error={isReversed ? 'must be after the beginning' : undefined}
        onChange={(event) => setTo(event.currentTarget.value)}
      />
      <Group justify="flex-end">
        <Button
          disabled={isReversed || (start === undefined && end === undefined)}
          onClick={() => onChange({ from: isoOf(start), to: isoOf(end) })}
        >
          Read this time
        </Button>
      </Group>
    </Stack>
  );
}

const isoOf = (at: number | undefined): string | undefined =>
  at === undefined ? undefined : new Date(at).toISOString();

const fieldOf = (time: string | undefined, zone: string): string => {
  const at = Date.parse(time ?? '');
  return Number.isNaN(at) ? '' : fieldTimeIn(zone, at);
};

function textOf({ range, from, to }: TimeRange, zone: string): string {
  const preset = TIME_PRESETS.find(({ value }) => value === range);
  if (preset !== undefined) return preset.label;
  const text = (time: string | undefined) => {
    const at = Date.parse(time ?? '');
    return Number.isNaN(at) ? undefined : shortTimeIn(zone, at);
  };
  const [first, last] = [text(from), text(to)];
  if (first === undefined && last === undefined) return 'Any time';
  if (last === undefined) return `Since ${first}`;
  return first === undefined ? `Until ${last}` : `${first} to ${last}`;
}
