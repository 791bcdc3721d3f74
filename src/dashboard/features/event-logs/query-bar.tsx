import { Autocomplete, Button, Chip, Group, Kbd, Pill, Tooltip } from '@mantine/core';
import { IconFilterX } from '@tabler/icons-react';
import { useState, type ReactNode, type Ref } from 'react';
import type { LogLevel } from '../../../../protocol/index.ts';
import { onlyEventId, parseEventIds } from '../model/event-ids.ts';
import { FIELD_NAMES, fieldConditions, removed } from '../model/log-filter.ts';
import { LEVELS } from '../model/log-row.ts';
import { hasConditions, NO_CONDITIONS, type LogSearch } from '../model/log-search.ts';
import { Severity } from '../viewer/severity.tsx';
import { CommitInput } from './commit-input.tsx';
import styles from './query-bar.module.css';
import { TimeRangeControl } from './time-range-control.tsx';

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
