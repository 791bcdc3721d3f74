import { Button, SegmentedControl } from '@mantine/core';
import { IconBolt, IconDatabase } from '@tabler/icons-react';
import { useInfiniteQuery } from '@tanstack/react-query';
import { useMemo, useRef } from 'react';
import { call, type StoredEvent } from '../../../api/index.ts';
import type { LogLevel } from '../../../../protocol/index.ts';
import { Empty, Failure, formatCount, Loading } from '../../../ui/index.ts';
import { matcherOf } from '../model/log-filter.ts';
import { countLevels, MAX_ROWS, type LogRow } from '../model/log-row.ts';
import { NO_CONDITIONS } from '../model/log-search.ts';
import { endsOf, TIME_PRESETS } from '../model/time-range.ts';
import { QueryBar } from '../query-bar/query-bar.tsx';
import { ViewsMenu } from '../query-bar/views-menu.tsx';
import { LogViewer, zoneOf } from '../viewer/log-viewer.tsx';
import { usePreferences } from '../viewer/preferences.ts';
import { nameOfDevice, type DeviceLogsProps } from './device-logs.ts';
import styles from './live-event-log.module.css';
import { Notice } from './query-notice.tsx';

const PAGE = 500;
const CATEGORIES = ['security', 'system', 'application', 'hardware'] as const;
const STORED_LEVELS: Partial<Record<LogLevel, StoredEvent['level']>> = {
  critical: 'critical',
  error: 'error',
  warning: 'warning',
  information: 'info',
};

function rowOfStored(event: StoredEvent, computer: string): LogRow {
  const at = Date.parse(event.timestamp);
  return {
    key: event.id,
    deviceId: event.deviceId,
    recordId: undefined,
    at: Number.isNaN(at) ? 0 : at,
    level: event.level === 'info' ? 'information' : event.level,
    source: event.source,
    eventId: event.eventId ?? '',
    message: event.message,
    category: event.category,
    user: null,
    computer,
    raw: event.details === null ? undefined : JSON.stringify(event.details),
  };
}

/** What the device has sent to the server, which can be read while it is away. */
export function StoredLogs({ device, search, change, memory, deviceZone }: DeviceLogsProps) {
  const [preferences, setPreferences] = usePreferences();
  const filterField = useRef<HTMLInputElement>(null);
  const category = CATEGORIES.find((each) => each === search.log);
  const levels = search.level?.flatMap((level) => STORED_LEVELS[level] ?? []);
  const question = {
    category,
    source: search.source,
    level: levels?.join(','),
  };
  const { range, from, to } = search;
  const events = useInfiniteQuery({
    queryKey: ['GET /devices/{id}/eventlogs', device.id, question, range, from, to],
    initialPageParam: 1,
    queryFn: ({ pageParam, signal }) => {
      const { startTime, endTime } = endsOf({ range, from, to }, Date.now());
      return call(
        'GET /devices/{id}/eventlogs',
        {
          params: { id: device.id },
          query: {
            ...question,
            startDate: startTime,
            endDate: endTime,
            page: String(pageParam),
            limit: String(PAGE),
          },
        },
        { signal },
      );
    },
    getNextPageParam: ({ pagination: { page, limit, total } }) =>
      page * limit < total && page * limit < MAX_ROWS ? page + 1 : undefined,
    // No stored event is verbose.
    enabled: levels === undefined || levels.length > 0,
  });
  const matches = useMemo(() => matcherOf(search), [search]);
  const pages = events.data?.pages;
  const loaded = useMemo(() => {
    const rows = pages?.flatMap(({ data }) => data.map((event) => rowOfStored(event, device.hostname)));
    // An event that arrives while somebody pages moves another one to the next page.
    return [...new Map(rows?.map((row) => [row.key, row])).values()];
  }, [pages, device.hostname]);
  const rows = useMemo(() => loaded.filter(matches), [loaded, matches]);
  const counts = useMemo(() => countLevels(rows), [rows]);
  const sources = useMemo(() => [...new Set(loaded.map(({ source }) => source))].sort(), [loaded]);
  const total = pages?.[0]?.pagination.total ?? 0;
  const toLive = () => change({ stored: undefined, log: undefined, record: undefined }, true);
  return (
    <div className={styles['main']}>
      <QueryBar
        search={search}
        onSearch={change}
        counts={counts}
        sources={sources}
        zone={zoneOf(preferences, deviceZone)}
        filterField={filterField}
      >
        <SegmentedControl
          aria-label="Category"
          value={category ?? ''}
          onChange={(value) => change({ log: value || undefined })}
          data={[
            { value: '', label: 'All' },
            { value: 'security', label: 'Security' },
            { value: 'system', label: 'System' },
            { value: 'application', label: 'Application' },
            { value: 'hardware', label: 'Hardware' },
          ]}
        />
        <ViewsMenu
          search={search}
          memory={memory}
          onApply={(view) => change({ ...NO_CONDITIONS, ...view, log: undefined, stored: true }, true)}
        />
      </QueryBar>
      <LogViewer
        rows={rows}
        search={search}
        onSearch={change}
        preferences={preferences}
        onPreferences={setPreferences}
        filterField={filterField}
        deviceZone={deviceZone}
        deviceName={() => nameOfDevice(device)}
        abilities={{}}
        fileName={`${device.hostname}-stored-events`}
        label={`Stored events of ${nameOfDevice(device)}`}
        notices={
          <Notice
            icon={<IconDatabase size={16} />}
            color="blue"
            actions={
              <Button
                size="compact-xs"
                variant="default"
                leftSection={<IconBolt size={14} aria-hidden />}
                onClick={toLive}
              >
                Read the device itself
              </Button>
            }
          >
            Stored events: what the device has sent to the server. The logs of the device hold more.
          </Notice>
        }
        empty={
          events.isLoading ? (
            <Loading what="Reading stored events" />
          ) : events.error !== null ? (
            <Failure error={events.error} retry={() => void events.refetch()} />
          ) : (
            <Empty
              title={
                loaded.length === 0 ? 'Nothing was sent in this time' : 'None of the loaded events matches'
              }
              action={
                <>
                  {TIME_PRESETS.slice(-2).map(({ value, label }) => (
                    <Button
                      key={value}
                      variant="default"
                      onClick={() => change({ ...NO_CONDITIONS, range: value }, true)}
                    >
                      {label}, without conditions
                    </Button>
                  ))}
                </>
              }
            >
              A device sends the events that its policy asks for, and the server keeps them for a while.
            </Empty>
          )
        }
        footer={
          <div className={styles['footer']}>
            <output>
              {formatCount(rows.length)} shown · {formatCount(loaded.length)} of {formatCount(total)} loaded
              {loaded.length >= MAX_ROWS && ` · at most ${formatCount(MAX_ROWS)} are held`}
            </output>
            {events.hasNextPage && (
              <Button
                size="compact-xs"
                variant="default"
                loading={events.isFetchingNextPage}
                onClick={() => void events.fetchNextPage()}
              >
                Load {PAGE} older
              </Button>
            )}
          </div>
        }
      />
    </div>
  );
}
