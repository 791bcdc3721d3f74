import {
  Autocomplete,
  Button,
  Chip,
  Group,
  Kbd,
  Pill,
  Tooltip,
  TextInput,
  type TextInputProps,
  Menu,
  Stack,
  Text,
} from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { IconFilterX, IconCalendarTime } from '@tabler/icons-react';
import { useState, type ReactNode, type Ref } from 'react';
import type { LogLevel } from '../../../protocol/index.ts';
import { onlyEventId, parseEventIds, FIELD_NAMES, fieldConditions, removed } from './log-filter.ts';
import { LEVELS } from './log-row.ts';
import { hasConditions, NO_CONDITIONS, type LogSearch } from './log-search.ts';
import { Severity } from './log-rows.tsx';
import styles from './log-viewer.module.css';
import { fieldTimeIn, instantIn, LOCAL_ZONE, shortTimeIn, TIME_PRESETS, type TimeRange } from './log-time.ts';

interface Props {
  search: LogSearch;
  onSearch: (change: Partial<LogSearch>, isStep?: boolean) => void;
  /** How many of the loaded entries have each level. */
  counts: Record<LogLevel, number>;
  sources: readonly string[];
  zone: string;
  filterField: Ref<HTMLInputElement>;
  /** Beside the times. */
  actions?: ReactNode;
  /** Behind the conditions. */
  children?: ReactNode;
}

/** The conditions of a query. Each is in the address. */
export function QueryBar({ search, onSearch, counts, sources, zone, filterField, actions, children }: Props) {
  const level = search.level ?? [];
  const excluded = fieldConditions(search.not);
  const required = fieldConditions(search.only);
  const ids = parseEventIds(search.ids ?? '') ?? [];
  const isListed = ids.length > 0 && onlyEventId(ids) === undefined;
  return (
    <div className={styles['bar']} role="search" aria-label="Conditions of the query">
      <Group gap={6}>
        <Chip.Group
          multiple
          value={[...level]}
          onChange={(picked) => {
            const next = LEVELS.filter((each) => picked.includes(each));
            onSearch({ level: next.length === 0 ? undefined : next });
          }}
        >
          <Group gap={4} role="group" aria-label="Levels; none means all">
            {LEVELS.map((each) => (
              <Chip
                key={each}
                value={each}
                size="xs"
                radius="sm"
                variant="outline"
                classNames={{ label: styles['chip'] ?? '' }}
              >
                <Severity level={each} count={counts[each]} />
              </Chip>
            ))}
          </Group>
        </Chip.Group>
        <TimeRangeControl value={search} zone={zone} onChange={(range) => onSearch({ ...range })} />
        {actions}
      </Group>
      <Group gap={6}>
        <CommitInput
          ref={filterField}
          flex="1 1 140px"
          maw={320}
          maxLength={500}
          placeholder="Message contains"
          aria-label="Only entries whose message contains this text"
          value={search.text ?? ''}
          onCommit={(text) => onSearch({ text: text || undefined })}
        />
        <SourceField
          key={search.source ?? ''}
          value={search.source ?? ''}
          sources={sources}
          onCommit={(source) => onSearch({ source: source || undefined })}
        />
        <Tooltip
          multiline
          maw={300}
          disabled={!isListed}
          label="A device can look for one event id only. This list is applied here, to the entries that are loaded."
        >
          <CommitInput
            w={170}
            maxLength={200}
            placeholder="Event ID: 7, 1000-1002"
            aria-label="Event ids, as a list or ranges"
            value={search.ids ?? ''}
            check={(text) =>
              parseEventIds(text) === undefined
                ? 'must be numbers and ranges, such as 7, 1000-1002'
                : undefined
            }
            onCommit={(value) => onSearch({ ids: value || undefined })}
          />
        </Tooltip>
        {required.map(({ code, field, value }) => (
          <Pill
            key={code}
            withRemoveButton
            onRemove={() => onSearch({ only: removed(search.only, code) })}
            removeButtonProps={{
              'aria-label': `Remove: ${FIELD_NAMES[field]} is ${value}`,
              'aria-hidden': false,
              tabIndex: 0,
            }}
          >
            {FIELD_NAMES[field]} is {shortened(value)}
          </Pill>
        ))}
        {excluded.map(({ code, field, value }) => (
          <Pill
            key={code}
            withRemoveButton
            onRemove={() => onSearch({ not: removed(search.not, code) })}
            removeButtonProps={{
              'aria-label': `Remove: ${FIELD_NAMES[field]} is not ${value}`,
              'aria-hidden': false,
              tabIndex: 0,
            }}
          >
            {FIELD_NAMES[field]} is not {shortened(value)}
          </Pill>
        ))}
        {hasConditions(search) && (
          <Button
            variant="subtle"
            leftSection={<IconFilterX size={14} aria-hidden />}
            onClick={() => onSearch(NO_CONDITIONS, true)}
          >
            Clear
          </Button>
        )}
        {children}
      </Group>
    </div>
  );
}

const shortened = (value: string): string => {
  if (value === '') return 'empty';
  return value.length > 40 ? `${value.slice(0, 40)}…` : value;
};

/** The sources that have been seen are suggested; others can be typed. */
function SourceField({
  value,
  sources,
  onCommit,
}: {
  value: string;
  sources: readonly string[];
  onCommit: (source: string) => void;
}) {
  const [draft, setDraft] = useState(value);
  const commit = (source: string) => {
    if (source.trim() !== value) onCommit(source.trim());
  };
  const isPending = draft.trim() !== value;
  return (
    <Autocomplete
      size="xs"
      w={140}
      maxLength={255}
      limit={30}
      placeholder="Source"
      aria-label="Only entries of this source"
      // A part of a source matches nothing, so it is not asked for while it is typed.
      {...(isPending
        ? { rightSection: <Kbd size="xs">↵</Kbd>, 'aria-description': 'Press Enter to apply' }
        : {})}
      data={[...sources]}
      value={draft}
      onChange={setDraft}
      onOptionSubmit={commit}
      onBlur={() => commit(draft)}
      onKeyDown={(event) => {
        if (event.key === 'Enter') commit(draft);
      }}
    />
  );
}

/** The times that are read: a preset, or two ends, in the time zone that the entries are shown in. */
function TimeRangeControl({
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

/** Each value asks a device, so it is not sent with each letter, but when the person pauses. */
const PAUSE_MS = 700;

/** A field whose value counts after a pause, and at once when the person presses Enter or leaves it. */
function CommitInput({
  value,
  onCommit,
  check,
  ref,
  ...input
}: Omit<TextInputProps, 'value' | 'onChange' | 'ref'> & {
  value: string;
  onCommit: (value: string) => void;
  /** The fault of a value. */
  check?: (value: string) => string | undefined;
  ref?: Ref<HTMLInputElement>;
}) {
  const [draft, setDraft] = useState(value);
  const [shown, setShown] = useState(value);
  if (shown !== value) {
    // The value was changed elsewhere, such as by "+" on a field of an entry.
    setShown(value);
    setDraft(value);
  }
  const error = check?.(draft);
  const later = useDebouncedCallback((text: string) => {
    if (check?.(text) === undefined && text.trim() !== value) onCommit(text.trim());
  }, PAUSE_MS);
  const commit = () => {
    later.cancel();
    if (error === undefined && draft.trim() !== value) onCommit(draft.trim());
  };
  return (
    <TextInput
      {...input}
      {...(ref === undefined ? {} : { ref })}
      value={draft}
      error={error}
      onChange={(event) => {
        setDraft(event.currentTarget.value);
        later(event.currentTarget.value);
      }}
      onBlur={commit}
      onKeyDown={(event) => {
        if (event.key === 'Enter') commit();
        if (event.key !== 'Escape') return;
        later.cancel();
        setDraft(value);
        event.currentTarget.blur();
      }}
    />
  );
}
