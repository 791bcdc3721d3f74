import { ActionIcon, Button, Group, Menu, Text, Tooltip } from '@mantine/core';
import { useClipboard } from '@mantine/hooks';
import { IconCheck, IconChevronDown, IconChevronUp, IconCopy, IconX } from '@tabler/icons-react';
import type { ReadBetween } from '../model/context-window.ts';
import { jsonLinesOf } from '../model/export-rows.ts';
import { timeIn } from '../model/log-time.ts';
import { LEVEL_NAMES, type LogRow } from '../model/log-row.ts';
import type { LogSearch } from '../model/log-search.ts';
import { EntryContext } from './entry-context.tsx';
import { EntryFields, FieldActions } from './entry-fields.tsx';
import { EntryOriginal } from './entry-original.tsx';
import styles from './entry-panel.module.css';
import { Marked } from './marked.tsx';
import { Severity } from './severity.tsx';

/** What can be done with an entry, where the page around it can do it. */
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
