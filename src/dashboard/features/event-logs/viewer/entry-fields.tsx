import { ActionIcon, Tooltip } from '@mantine/core';
import { IconMinus, IconPlus } from '@tabler/icons-react';
import { FIELD_NAMES, FIELDS, valueOf, withField, withoutField, type Field } from '../model/log-filter.ts';
import { LEVEL_NAMES, type LogRow } from '../model/log-row.ts';
import type { LogSearch } from '../model/log-search.ts';
import { LOCAL_ZONE, timeIn } from '../model/log-time.ts';
import styles from './entry-panel.module.css';

/** The fields of an entry. From each, entries with the same value are kept or left out. */
export function EntryFields({
  row,
  search,
  onFilter,
  deviceZone,
  deviceName,
}: {
  row: LogRow;
  search: LogSearch;
  onFilter: (change: Partial<LogSearch>) => void;
  deviceZone: string | undefined;
  deviceName: string | undefined;
}) {
  const times: [label: string, zone: string][] = [
    ['Your time', LOCAL_ZONE],
    ['UTC', 'UTC'],
    ...(deviceZone === undefined ? [] : [['Device time', deviceZone] as [string, string]]),
  ];
  return (
    <dl className={styles['fields']}>
      {times.map(([label, zone]) => (
        <FieldLine
          key={label}
          label={label}
          value={`${timeIn(zone, row.at)} ${zone === 'UTC' ? '' : zone}`}
        />
      ))}
      {deviceName !== undefined && <FieldLine label="Device" value={deviceName} />}
      {FIELDS.filter((field) => field !== 'message').map((field) => {
        const value = valueOf(row, field);
        if (value === '') return null;
        return (
          <FieldLine
            key={field}
            label={FIELD_NAMES[field]}
            value={field === 'level' ? LEVEL_NAMES[row.level] : value}
            actions={<FieldActions {...{ field, value, search, onFilter }} />}
          />
        );
      })}
      {row.recordId !== undefined && <FieldLine label="Record" value={String(row.recordId)} />}
    </dl>
  );
}

function FieldLine({ label, value, actions }: { label: string; value: string; actions?: React.ReactNode }) {
  return (
    <>
      <dt>{label}</dt>
      <dd>{value}</dd>
      <dd className={styles['actions']}>{actions}</dd>
    </>
  );
}

export function FieldActions({
  field,
  value,
  search,
  onFilter,
}: {
  field: Field;
  value: string;
  search: LogSearch;
  onFilter: (change: Partial<LogSearch>) => void;
}) {
  const name = FIELD_NAMES[field].toLowerCase();
  return (
    <>
      <Tooltip label={`Only this ${name}`}>
        <ActionIcon
          size="sm"
          variant="subtle"
          color="gray"
          aria-label={`Only entries with this ${name}`}
          onClick={() => onFilter(withField(search, field, value))}
        >
          <IconPlus size={14} />
        </ActionIcon>
      </Tooltip>
      <Tooltip label={`Without this ${name}`}>
        <ActionIcon
          size="sm"
          variant="subtle"
          color="gray"
          aria-label={`No entries with this ${name}`}
          onClick={() => onFilter(withoutField(search, field, value))}
        >
          <IconMinus size={14} />
        </ActionIcon>
      </Tooltip>
    </>
  );
}
