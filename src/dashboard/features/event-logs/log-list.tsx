import { ActionIcon, Stack, Text, TextInput, Tooltip } from '@mantine/core';
import { IconPin, IconPinnedFilled, IconSearch } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useRouter } from '@tanstack/react-router';
import { useState, useMemo } from 'react';
import { type EventLogMetadata, apiQuery, call, pathOf } from '../../api/index.ts';
import { formatBytes, formatCount, When } from '../../ui/index.ts';
import styles from './device-logs.module.css';
import type { FeedState } from './log-feed.ts';
import { curlOf, rowOfEntry, type LogRow } from './log-row.ts';
import { viewOf, type LogSearch } from './log-search.ts';
import type { EntryAbilities } from './entry-panel.tsx';

/** The logs of a device: the pinned ones, those that were used last, and all. */
export function LogList({
  logs,
  chosen,
  pinned,
  recent,
  onChoose,
  onPin,
}: {
  logs: readonly EventLogMetadata[];
  chosen: string | undefined;
  pinned: readonly string[];
  recent: readonly string[];
  onChoose: (name: string) => void;
  onPin: (name: string) => void;
}) {
  const [search, setSearch] = useState('');
  const part = search.trim().toLowerCase();
  const shown = logs.filter(({ name, displayName }) =>
    [name, displayName].some((text) => text.toLowerCase().includes(part)),
  );
  const isPinned = ({ name }: EventLogMetadata) => pinned.includes(name);
  // Only a long list repeats the last used logs at the top.
  const isRecent = (log: EventLogMetadata) =>
    logs.length > 6 && part === '' && recent.includes(log.name) && !isPinned(log);
  const sections: [title: string | undefined, logs: EventLogMetadata[]][] = [
    ['Pinned', shown.filter(isPinned)],
    ['Recent', shown.filter(isRecent)],
    [
      shown.some((log) => isPinned(log) || isRecent(log)) ? 'All' : undefined,
      shown.filter((log) => !isPinned(log) && !isRecent(log)),
    ],
  ];
  return (
    <nav className={styles['list']} aria-label="Logs of the device">
      {logs.length > 6 && (
        <TextInput
          placeholder="Search logs"
          aria-label="Search the logs"
          leftSection={<IconSearch size={14} aria-hidden />}
          value={search}
          onChange={(event) => setSearch(event.currentTarget.value)}
        />
      )}
      {shown.length === 0 && <Text size="sm">No log has “{search}” in its name.</Text>}
      {sections.map(([title, part]) =>
        part.length === 0 ? null : (
          <Stack key={title ?? 'all'} gap={1}>
            {title !== undefined && (
              <Text size="xs" fw={600}>
                {title}
              </Text>
            )}
            {part.map((log) => (
              <LogItem
                key={log.name}
                log={log}
                isChosen={log.name === chosen}
                isPinned={pinned.includes(log.name)}
                onChoose={() => onChoose(log.name)}
                onPin={() => onPin(log.name)}
              />
            ))}
          </Stack>
        ),
      )}
    </nav>
  );
}

function LogItem({
  log,
  isChosen,
  isPinned,
  onChoose,
  onPin,
}: {
  log: EventLogMetadata;
  isChosen: boolean;
  isPinned: boolean;
  onChoose: () => void;
  onPin: () => void;
}) {
  const { displayName, name, recordCount, maxSize, lastWriteTime, note } = log;
  return (
    <div className={styles['item']} data-chosen={isChosen}>
      <button type="button" aria-current={isChosen} onClick={onChoose} title={note}>
        <span className={styles['name']}>{displayName || name}</span>
        <span className={styles['facts']}>
          {formatCount(recordCount)} entries{maxSize > 0 && `, max ${formatBytes(maxSize)}`}
        </span>
        <span className={styles['facts']}>
          {lastWriteTime === '' ? (
            'Never written'
          ) : (
            <>
              Written <When at={lastWriteTime} />
            </>
          )}
        </span>
      </button>
      <Tooltip label={isPinned ? 'Unpin' : 'Pin to the top'}>
        <ActionIcon
          size="sm"
          variant="subtle"
          color="gray"
          aria-pressed={isPinned}
          aria-label={`Pin ${displayName || name}`}
          onClick={onPin}
        >
          {isPinned ? <IconPinnedFilled size={14} /> : <IconPin size={14} />}
        </ActionIcon>
      </Tooltip>
    </div>
  );
}

/** The entry whose number is in the address: among the rows, or read from the device if a link led here. */
export function useLinkedEntry(
  deviceId: string,
  name: string | undefined,
  recordId: number | undefined,
  { rows, query }: FeedState,
): LogRow | undefined {
  // Every entry that is opened later was among the rows.
  const [linked] = useState(recordId);
  const loaded = recordId === undefined ? undefined : rows.find((row) => row.recordId === recordId);
  const entry = useQuery({
    ...apiQuery('GET /system-tools/devices/{deviceId}/eventlogs/{name}/events/{recordId}', {
      params: { deviceId, name: name ?? '', recordId: String(recordId ?? '') },
    }),
    enabled:
      query.state === 'ended' &&
      name !== undefined &&
      recordId !== undefined &&
      recordId === linked &&
      loaded === undefined,
    staleTime: Infinity,
    retry: false,
  });
  return useMemo(() => {
    if (recordId === undefined) return undefined;
    return loaded ?? (entry.data === undefined ? undefined : rowOfEntry(deviceId, entry.data.data));
  }, [recordId, loaded, entry.data, deviceId]);
}

/** A link to an entry of a device, a command that reads it, and its neighbours. */
export function useEntryAbilities(deviceId: string, name: string, search: LogSearch): EntryAbilities {
  const router = useRouter();
  return {
    link: (row) => {
      const { href } = router.buildLocation({
        to: '/devices/$deviceId/logs',
        params: { deviceId },
        search: {
          ...viewOf(search),
          log: name,
          ...(row.recordId === undefined ? {} : { record: row.recordId }),
        },
      });
      return window.location.origin + href;
    },
    curl: ({ recordId }) =>
      recordId === undefined
        ? undefined
        : curlOf(
            window.location.origin +
              pathOf('GET /system-tools/devices/{deviceId}/eventlogs/{name}/events/{recordId}', {
                params: { deviceId, name, recordId: String(recordId) },
              }),
          ),
    read: (_row, signal) => async (ends) => {
      const { data } = await call(
        'GET /system-tools/devices/{deviceId}/eventlogs/{name}/events',
        { params: { deviceId, name }, query: { ...ends, limit: String(ends.limit) } },
        { signal },
      );
      return data.map((entry) => rowOfEntry(deviceId, entry));
    },
  };
}
