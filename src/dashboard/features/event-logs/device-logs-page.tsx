import { useQuery, useInfiniteQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useEffect, useMemo, useRef } from 'react';
import { apiQuery, type Device, call, type StoredEvent } from '../../api/index.ts';
import {
  DeviceStatusBadge,
  Page,
  Forbidden,
  Loaded,
  TextLink,
  Empty,
  Failure,
  formatCount,
  Loading,
  Notice,
} from '../../ui/index.ts';
import { useSites } from '../../directory.ts';
import { useRefusal } from '../../session.ts';
import { nameOfDevice, SourceSwitch, useLogAddress, type DeviceLogsProps, LiveLogs } from './live-logs.tsx';
import { isZone, endsOf, TIME_PRESETS } from './log-time.ts';
import { beginning, useLogMemory, LogViews } from './log-views.tsx';
import { Button, SegmentedControl } from '@mantine/core';
import { IconDatabase } from '@tabler/icons-react';
import type { LogLevel } from '../../../protocol/index.ts';
import { matcherOf } from './log-filter.ts';
import { countLevels, MAX_ROWS, type LogRow } from './log-row.ts';
import { NO_CONDITIONS } from './log-search.ts';
import { QueryBar } from './query-bar.tsx';
import { LogViewer, zoneOf } from './log-viewer.tsx';
import { usePreferences } from './viewer-toolbar.tsx';
import styles from './device-logs.module.css';

const route = getRouteApi('/signed-in/devices/$deviceId/logs');

/** The event log of one device, live or stored, on a page of its own, which can be linked. */
export function DeviceLogsPage() {
  const { deviceId } = route.useParams();
  const device = useQuery(apiQuery('GET /devices/{id}', { params: { id: deviceId } })).data;
  return (
    <Page
      title={device === undefined ? 'Event log' : `Event log of ${nameOfDevice(device)}`}
      fill
      actions={
        device !== undefined && (
          <>
            <TextLink size="sm" to="/devices/$deviceId" params={{ deviceId }}>
              Open the device
            </TextLink>
            <DeviceStatusBadge status={device.status} presence={device.presence} />
            <SourceSwitch />
          </>
        )
      }
    >
      <LiveEventLog deviceId={deviceId} />
    </Page>
  );
}

const PRESENCE_MS = 10_000;

/** The event logs of a device, live, or what the server has stored of them. For the page or the tab of one device. */
function LiveEventLog({ deviceId }: { deviceId: string }) {
  const refusal = useRefusal('devices:read');
  const device = useQuery({
    ...apiQuery('GET /devices/{id}', { params: { id: deviceId } }),
    enabled: refusal === undefined,
    // A device that comes back is read at once.
    refetchInterval: ({ state }) => (state.data?.presence.state === 'connected' ? false : PRESENCE_MS),
  });
  if (refusal !== undefined) return <Forbidden reason={refusal} />;
  return (
    <Loaded query={device} what="Reading the device">
      {(data) => <DeviceLogs key={data.id} device={data} />}
    </Loaded>
  );
}

function DeviceLogs({ device }: { device: Device }) {
  const { search, change } = useLogAddress();
  const memory = useLogMemory(device.osType);
  const zone = useSites().find(({ id }) => id === device.siteId)?.timezone;
  useEffect(() => {
    const begun = beginning(search, memory.memory);
    if (begun !== search) change(begun);
    // Only what the page was opened with is completed.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, []);
  const props = {
    device,
    search,
    change,
    memory,
    deviceZone: zone !== undefined && isZone(zone) ? zone : undefined,
  };
  return search.stored === true ? <StoredLogs {...props} /> : <LiveLogs {...props} />;
}

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

/** The stored logs of the device, which can be read while it is offline. */
function StoredLogs({ device, search, change, deviceZone }: DeviceLogsProps) {
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
    // An event that arrives between two pages moves another one to the next page.
    return [...new Map(rows?.map((row) => [row.key, row])).values()];
  }, [pages, device.hostname]);
  const rows = useMemo(() => loaded.filter(matches), [loaded, matches]);
  const counts = useMemo(() => countLevels(rows), [rows]);
  const sources = useMemo(() => [...new Set(loaded.map(({ source }) => source))].sort(), [loaded]);
  const total = pages?.[0]?.pagination.total ?? 0;
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
        <LogViews
          search={search}
          system={device.osType}
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
          <Notice role="status" tone="info" icon={IconDatabase}>
            These are the events that the device has sent to the server. Its own logs hold more.
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
