import { ActionIcon, Button, Group, Menu, Text, Tooltip, Code, SegmentedControl } from '@mantine/core';
import { useClipboard } from '@mantine/hooks';
import {
  IconCheck,
  IconChevronDown,
  IconChevronUp,
  IconCopy,
  IconX,
  IconMinus,
  IconPlus,
} from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Failure, Loading } from '../../ui/index.ts';
import { type ReadBetween, LEVEL_NAMES, type LogRow, CONTEXT_SIZE, readContext } from './log-row.ts';
import { jsonLinesOf, prettyJson, prettyXml } from './entry-text.ts';
import { timeIn, LOCAL_ZONE } from './log-time.ts';
import type { LogSearch } from './log-search.ts';
import styles from './entry-panel.module.css';
import { Marked, Severity, SeverityIcon } from './log-rows.tsx';
import { FIELD_NAMES, FIELDS, valueOf, withField, withoutField, type Field } from './log-filter.ts';

/** The actions on an entry that the page around it offers. */
export interface EntryAbilities {
  /** An address that opens this entry. */
  link?: ((row: LogRow) => string) | undefined;
  /** A command that reads this entry by the API. */
  curl?: ((row: LogRow) => string | undefined) | undefined;
  /** Reads entries of the same log. */
  read?: ((row: LogRow, signal: AbortSignal) => ReadBetween) | undefined;
}

interface Props extends EntryAbilities {
  row: LogRow;
  zone: string;
  deviceZone: string | undefined;
  deviceName: (deviceId: string) => string;
  showsDevice: boolean;
  words: readonly string[];
  search: LogSearch;
  onFilter: (change: Partial<LogSearch>) => void;
  onStep: (step: 1 | -1) => void;
  onOpen: (row: LogRow) => void;
  onClose: () => void;
}

/** Everything about one entry, beside the list, so that the list stays in sight. */
export function EntryPanel({
  row,
  zone,
  deviceZone,
  deviceName,
  showsDevice,
  words,
  search,
  onFilter,
  onStep,
  onOpen,
  onClose,
  link,
  curl,
  read,
}: Props) {
  return (
    <aside className={styles['panel']} aria-label="Entry" data-entry-panel>
      <div className={styles['head']}>
        <Severity level={row.level} />
        <Group gap={2} wrap="nowrap">
          <CopyMenu row={row} deviceName={deviceName} zone={zone} {...{ link, curl }} />
          <Icon label="Previous entry (k)" onClick={() => onStep(-1)}>
            <IconChevronUp size={16} />
          </Icon>
          <Icon label="Next entry (j)" onClick={() => onStep(1)}>
            <IconChevronDown size={16} />
          </Icon>
          <Icon label="Close (Esc)" onClick={onClose}>
            <IconX size={16} />
          </Icon>
        </Group>
      </div>
      {/* Scrolls, so it can be focused. */}
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex */}
      <div className={styles['body']} tabIndex={0} role="group" aria-label="Details of the entry">
        <Group align="flex-start" justify="space-between" gap={4} wrap="nowrap">
          <p className={styles['message']}>
            {row.message === '' ? (
              <Text span inherit c="dimmed">
                This entry has no message.
              </Text>
            ) : (
              <Marked text={row.message} words={words} />
            )}
          </p>
          {row.message !== '' && (
            <Group gap={0} wrap="nowrap">
              <FieldActions field="message" value={row.message} search={search} onFilter={onFilter} />
            </Group>
          )}
        </Group>
        <EntryFields
          row={row}
          search={search}
          onFilter={onFilter}
          deviceZone={deviceZone}
          deviceName={showsDevice ? deviceName(row.deviceId) : undefined}
        />
        <EntryOriginal row={row} />
        {read !== undefined && (
          <EntryContext row={row} zone={zone} read={(signal) => read(row, signal)} onOpen={onOpen} />
        )}
      </div>
    </aside>
  );
}

function Icon({
  label,
  onClick,
  children,
}: {
  label: string;
  onClick: () => void;
  children: React.ReactNode;
}) {
  return (
    <Tooltip label={label}>
      <ActionIcon variant="subtle" color="gray" size="sm" aria-label={label} onClick={onClick}>
        {children}
      </ActionIcon>
    </Tooltip>
  );
}

function CopyMenu({
  row,
  zone,
  deviceName,
  link,
  curl,
}: {
  row: LogRow;
  zone: string;
  deviceName: (deviceId: string) => string;
} & Pick<EntryAbilities, 'link' | 'curl'>) {
  const clipboard = useClipboard({ timeout: 1_500 });
  const command = curl?.(row);
  const asText = `${timeIn(zone, row.at)} (${zone})  ${LEVEL_NAMES[row.level]}  ${row.source}  ${row.eventId}\n${row.message}`;
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Button
          variant="subtle"
          size="compact-xs"
          leftSection={
            clipboard.copied ? <IconCheck size={14} aria-hidden /> : <IconCopy size={14} aria-hidden />
          }
        >
          {clipboard.copied ? 'Copied' : 'Copy'}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item onClick={() => clipboard.copy(asText)}>Copy as text</Menu.Item>
        <Menu.Item onClick={() => clipboard.copy(row.message)}>Copy the message</Menu.Item>
        <Menu.Item onClick={() => clipboard.copy(jsonLinesOf([row], deviceName).trim())}>
          Copy as JSON
        </Menu.Item>
        {link !== undefined && row.recordId !== undefined && (
          <Menu.Item onClick={() => clipboard.copy(link(row))}>Copy a link to it</Menu.Item>
        )}
        {command !== undefined && (
          <Menu.Item onClick={() => clipboard.copy(command)}>Copy as a curl command</Menu.Item>
        )}
      </Menu.Dropdown>
    </Menu>
  );
}

/** The other entries around the time of one, without any filter. */
function EntryContext({
  row,
  zone,
  read,
  onOpen,
}: {
  row: LogRow;
  zone: string;
  read: (signal: AbortSignal) => ReadBetween;
  onOpen: (row: LogRow) => void;
}) {
  /** The entry that the context belongs to. It stays while its neighbours are opened. */
  const [center, setCenter] = useState<LogRow>();
  const context = useQuery({
    queryKey: ['event-log-context', center?.key],
    queryFn: ({ signal }) => (center === undefined ? [] : readContext(center, read(signal), Date.now())),
    enabled: center !== undefined,
    staleTime: Infinity,
    retry: false,
  });
  const isAround = context.data?.some(({ key }) => key === row.key) ?? false;
  if (center === undefined || (context.data !== undefined && !isAround)) {
    return (
      <Button variant="default" size="xs" onClick={() => setCenter(row)}>
        Show {CONTEXT_SIZE} entries before and after
      </Button>
    );
  }
  return (
    <section aria-label="Context">
      <Text size="sm" fw={600} mb={4}>
        Around this entry, newest first, unfiltered
      </Text>
      {context.isPending && <Loading what="Reading the entries around it" />}
      {context.error !== null && <Failure error={context.error} retry={() => void context.refetch()} />}
      <ul className={styles['context']}>
        {context.data?.map((each) => (
          <li key={each.key}>
            <button type="button" aria-current={each.key === row.key} onClick={() => onOpen(each)}>
              <span>{timeIn(zone, each.at).slice(11)}</span>
              <SeverityIcon level={each.level} />
              <span title={each.message.slice(0, 500)}>
                {each.source}: {each.message.slice(0, 300)}
              </span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** The fields of an entry. From each, entries with the same value are kept or left out. */
function EntryFields({
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

function FieldActions({
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

/** The record as the device keeps it. */
function EntryOriginal({ row }: { row: LogRow }) {
  const [form, setForm] = useState('pretty');
  const raw = row.rawXml ?? row.raw;
  if (raw === undefined || raw === '') return null;
  const json = row.rawXml === undefined ? prettyJson(raw) : undefined;
  const pretty = row.rawXml === undefined ? json : prettyXml(row.rawXml);
  const kind = row.rawXml === undefined ? (json === undefined ? 'Lines' : 'JSON') : 'XML';
  return (
    <section aria-label="Original record">
      <Group justify="space-between" mb={4}>
        <Text size="sm" fw={600}>
          Original record ({kind})
        </Text>
        {pretty !== undefined && (
          <SegmentedControl
            size="xs"
            aria-label="Form of the original record"
            value={form}
            onChange={setForm}
            data={[
              { value: 'pretty', label: 'Pretty' },
              { value: 'raw', label: 'Raw' },
            ]}
          />
        )}
      </Group>
      <Code block tabIndex={0} fz={12} mah={320} style={{ overflow: 'auto', whiteSpace: 'pre-wrap' }}>
        {form === 'pretty' ? (pretty ?? raw) : raw}
      </Code>
    </section>
  );
}
