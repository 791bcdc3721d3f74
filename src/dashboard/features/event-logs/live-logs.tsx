import { Button, Group, SegmentedControl } from '@mantine/core';
import { useClipboard } from '@mantine/hooks';
import { IconDatabase, IconPlugConnectedX, IconRefresh } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useMemo, useRef, useState, useCallback } from 'react';
import { ApiError, apiQuery, pathOf, type EventLogMetadata, type Device } from '../../api/index.ts';
import { Empty, Failure, Loading, presenceText, formatCount, Notice } from '../../ui/index.ts';
import { useLogFeed } from './use-log-feed.ts';
import { type FeedState, PAGE } from './log-feed.ts';
import { curlOf, countLevels, MAX_ROWS } from './log-row.ts';
import { deviceConditions, localMatcher, type DeviceConditions } from './log-filter.ts';
import { NO_CONDITIONS, LogSearch } from './log-search.ts';
import { QueryBar } from './query-bar.tsx';
import { LogViews, type useLogMemory } from './log-views.tsx';
import { LogViewer, zoneOf } from './log-viewer.tsx';
import { usePreferences } from './viewer-toolbar.tsx';
import { LogList, useEntryAbilities, useLinkedEntry } from './log-list.tsx';
import { QueryNotice } from './query-notice.tsx';
import { timeIn } from './log-time.ts';
import { useNavigate, useRouterState } from '@tanstack/react-router';
import styles from './device-logs.module.css';

const LIST_STALE_MS = 60_000;

/** The logs of a connected device, read from it while the page is open. */
export function LiveLogs({ device, search, change, memory, deviceZone }: DeviceLogsProps) {
  const deviceId = device.id;
  const isConnected = device.presence.state === 'connected';
  const logs = useQuery({
    ...apiQuery('GET /system-tools/devices/{deviceId}/eventlogs', { params: { deviceId } }),
    enabled: isConnected,
    staleTime: LIST_STALE_MS,
    // A device that needed 30 seconds will need them again.
    retry: false,
  });
  const { feed, state } = useLogFeed();
  const [preferences, setPreferences] = usePreferences();
  const [run, setRun] = useState(0);
  const [hasPanel, setHasPanel] = useState(false);
  const filterField = useRef<HTMLInputElement>(null);
  const clipboard = useClipboard({ timeout: 1_500 });

  const { recent } = memory.memory;
  const name = search.log ?? defaultLog(logs.data?.data, recent);
  const log = logs.data?.data.find((each) => each.name === name);
  const matches = useMemo(() => localMatcher(search), [search]);
  // The question to the device, without the conditions that are applied here.
  const question = JSON.stringify([deviceConditions(search, 0), search.range]);
  useEffect(() => {
    if (name === undefined || !isConnected) return;
    feed.start({ deviceIds: [deviceId], name }, deviceConditions(search, Date.now()));
    // `question` holds what counts of the search.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [feed, deviceId, name, question, run, isConnected]);
  const { remember } = memory;
  useEffect(() => {
    if (name !== undefined) remember({ ...search, log: name });
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [search, name]);

  const rows = useMemo(
    () => (matches === undefined ? state.rows : state.rows.filter(matches)),
    [state.rows, matches],
  );
  const counts = useMemo(() => countLevels(rows), [rows]);
  const sources = useMemo(
    () => [...new Set(state.rows.map(({ source }) => source))].sort((a, b) => a.localeCompare(b)),
    [state.rows],
  );
  const linked = useLinkedEntry(deviceId, name, search.record, state);
  const abilities = useEntryAbilities(deviceId, name ?? '', search);
  const zone = zoneOf(preferences, deviceZone);
  const again = () => setRun((runs) => runs + 1);
  const toStored = () => change(toSource('stored'), true);

  const offline = !isConnected || (logs.error instanceof ApiError && logs.error.code === 'DEVICE_OFFLINE');
  if (offline && state.rows.length === 0) {
    return (
      <Empty
        title="The device is not connected"
        action={
          <Group>
            <Button leftSection={<IconDatabase size={14} aria-hidden />} onClick={toStored}>
              Show stored events
            </Button>
            <Button variant="default" onClick={() => void logs.refetch()} loading={logs.isFetching}>
              Try again
            </Button>
          </Group>
        }
      >
        {nameOfDevice(device)} {presenceText(device.presence)}. Its logs are read from the device itself, as
        soon as it is back. What it sent before is stored on the server.
      </Empty>
    );
  }
  if (name === undefined) {
    if (logs.error !== null) return <Failure error={logs.error} retry={() => void logs.refetch()} />;
    if (logs.data !== undefined) {
      return (
        <Empty title="This device offers no logs">
          The agent found no log that it may read. Its account may lack the right to.
        </Empty>
      );
    }
    return <Loading what="Asking the device for its logs" />;
  }
  const copyCurl = () => {
    const path = pathOf('GET /system-tools/devices/{deviceId}/eventlogs/{name}/events', {
      params: { deviceId, name },
      query: asQuery(deviceConditions(search, Date.now())),
    });
    clipboard.copy(curlOf(window.location.origin + path));
  };
  return (
    <div className={styles['layout']} data-panel={hasPanel || linked !== undefined}>
      {logs.data !== undefined && (
        <LogList
          logs={logs.data.data}
          chosen={name}
          pinned={memory.memory.pinned}
          recent={recent}
          onChoose={(chosen) => change({ log: chosen, record: undefined }, true)}
          onPin={memory.togglePin}
        />
      )}
      <div className={styles['main']}>
        <QueryBar
          search={search}
          onSearch={change}
          counts={counts}
          sources={sources}
          zone={zone}
          filterField={filterField}
          actions={
            <Button variant="default" leftSection={<IconRefresh size={14} aria-hidden />} onClick={again}>
              Refresh
            </Button>
          }
        >
          <LogViews
            search={search}
            system={device.osType}
            onApply={(view) => change({ ...NO_CONDITIONS, record: undefined, ...view }, true)}
          />
        </QueryBar>
        <LogViewer
          key={name}
          rows={rows}
          search={search}
          onSearch={change}
          preferences={preferences}
          onPreferences={setPreferences}
          filterField={filterField}
          deviceZone={deviceZone}
          deviceName={() => nameOfDevice(device)}
          tail={{
            state: state.tail,
            follow: () => feed.follow(),
            pause: () => feed.pause(),
            resume: () => feed.resume(),
            stop: () => feed.unfollow(),
          }}
          abilities={abilities}
          linked={linked}
          fileName={`${device.hostname}-${name}`.replaceAll(/[^\w.-]+/g, '_')}
          label={`Entries of ${name} on ${nameOfDevice(device)}`}
          onPanel={setHasPanel}
          notices={
            <>
              {logs.error !== null && !offline && (
                <Failure error={logs.error} retry={() => void logs.refetch()} />
              )}
              {offline && (
                <Notice role="status" tone="warning" icon={IconPlugConnectedX}>
                  The device has lost its connection. These entries are as of then.
                </Notice>
              )}
              <QueryNotice
                query={state.query}
                search={search}
                logSize={log?.recordCount}
                onSearch={change}
                onCancel={() => feed.cancel()}
                onAgain={again}
                onFurther={(before) => feed.older(before)}
                onStored={toStored}
              />
              {state.tail.ended !== undefined && (
                <Notice
                  role="status"
                  tone="info"
                  icon={IconPlugConnectedX}
                  actions={
                    <Button size="compact-xs" variant="default" onClick={() => feed.follow()}>
                      Follow again
                    </Button>
                  }
                >
                  New entries are no longer followed. {state.tail.ended}
                </Notice>
              )}
            </>
          }
          empty={
            state.query.state === 'running' ? null : (
              <NoEntries loaded={state.rows.length} onClear={() => change(NO_CONDITIONS, true)} />
            )
          }
          footer={
            <LiveFooter
              state={state}
              shown={rows.length}
              log={log}
              zone={zone}
              onOlder={() => feed.older()}
              onCurl={copyCurl}
              isCopied={clipboard.copied}
            />
          }
        />
      </div>
    </div>
  );
}

/** The log that was used last on this system, or the one with the most entries. */
function defaultLog(
  logs: readonly EventLogMetadata[] | undefined,
  recent: readonly string[],
): string | undefined {
  const names = logs?.map(({ name }) => name);
  return (
    recent.find((name) => names?.includes(name)) ??
    names?.find((name) => name.toLowerCase() === 'system') ??
    names?.[0]
  );
}

const asQuery = ({ level, eventId, ...others }: DeviceConditions) => ({
  ...others,
  limit: '500',
  ...(level === undefined ? {} : { level: level.join(',') }),
  ...(eventId === undefined ? {} : { eventId: String(eventId) }),
});

function NoEntries({ loaded, onClear }: { loaded: number; onClear: () => void }) {
  return (
    <Empty
      title={loaded === 0 ? 'No entries match' : 'None of the loaded entries matches'}
      action={
        <Button variant="default" onClick={onClear}>
          Clear the conditions
        </Button>
      }
    >
      {loaded === 0
        ? 'The device has no entries in this log that meet these conditions.'
        : `${loaded.toLocaleString()} entries are loaded, and conditions that are applied here hide all of them. Older ones can be loaded below.`}
    </Empty>
  );
}

/** Says how much of the log is loaded, and loads older entries. */
function LiveFooter({
  state,
  shown,
  log,
  zone,
  onOlder,
  onCurl,
  isCopied,
}: {
  state: FeedState;
  shown: number;
  log: EventLogMetadata | undefined;
  zone: string;
  onOlder: () => void;
  onCurl: () => void;
  isCopied: boolean;
}) {
  const { rows, query, hasOlder, dropped } = state;
  const oldest = rows.at(-1);
  const hidden = rows.length - shown;
  const isFull = rows.length >= MAX_ROWS;
  const [outcome] = query.state === 'ended' ? query.outcomes : [];
  const parts = [
    `${formatCount(shown)} shown`,
    hidden > 0 ? `${formatCount(hidden)} hidden by conditions applied here` : undefined,
    oldest === undefined ? undefined : `back to ${timeIn(zone, oldest.at).slice(0, 19)}`,
    outcome?.total === undefined ? undefined : `${formatCount(outcome.total)} match in the whole log`,
    outcome?.scanned === undefined ? undefined : `${formatCount(outcome.scanned)} records read`,
    !hasOlder && !isFull && rows.length > 0 && query.state === 'ended' && query.reason === 'complete'
      ? 'nothing older matches'
      : undefined,
    isFull ? `at most ${formatCount(MAX_ROWS)} entries are held` : undefined,
    dropped > 0 ? `the ${formatCount(dropped)} oldest were dropped` : undefined,
    log?.note,
  ];
  return (
    <div className={styles['footer']}>
      <output>{parts.filter((part) => part !== undefined && part !== '').join(' · ')}</output>
      <Group gap={6}>
        {hasOlder && (
          <Button size="compact-xs" variant="default" disabled={query.state === 'running'} onClick={onOlder}>
            Load {PAGE} older
          </Button>
        )}
        <Button size="compact-xs" variant="subtle" onClick={onCurl}>
          {isCopied ? 'Copied' : 'Copy query as curl'}
        </Button>
      </Group>
    </div>
  );
}

/** The properties of both kinds of logs of a device. */
export interface DeviceLogsProps {
  device: Device;
  search: LogSearch;
  change: (change: Partial<LogSearch>, isStep?: boolean) => void;
  memory: ReturnType<typeof useLogMemory>;
  deviceZone: string | undefined;
}

export const nameOfDevice = (device: Device): string => device.displayName ?? device.hostname;

const SOURCES = [
  { value: 'live', label: 'Live from the device' },
  { value: 'stored', label: 'Stored on the server' },
] as const;
type LogSource = (typeof SOURCES)[number]['value'];

/** The logs of a device and the categories of stored events have different names, so neither is taken along. */
const toSource = (source: LogSource): Partial<LogSearch> => ({
  stored: source === 'stored' ? true : undefined,
  log: undefined,
  record: undefined,
});

/** Where the entries on the page come from. */
export function SourceSwitch() {
  const { search, change } = useLogAddress();
  return (
    <SegmentedControl
      aria-label="Where the entries come from"
      value={search.stored === true ? 'stored' : 'live'}
      onChange={(value) => change(toSource(value), true)}
      data={[...SOURCES]}
    />
  );
}

/** The conditions in the address, on whichever page the viewer stands. */
export function useLogAddress(): {
  search: LogSearch;
  /** @param isStep  whether "back" in the browser leads back to what was shown before */
  change: (change: Partial<LogSearch>, isStep?: boolean) => void;
} {
  const raw = useRouterState({ select: ({ location }) => location.searchStr });
  const parsed = useRouterState({ select: ({ location }): unknown => location.search });
  // The parsed object is made anew at each navigation; the text says whether it is another one.
  // oxlint-disable-next-line react-hooks/exhaustive-deps
  const search = useMemo(() => LogSearch.parse(parsed ?? {}), [raw]);
  const navigate = useNavigate();
  const change = useCallback(
    (next: Partial<LogSearch>, isStep = false) =>
      void navigate({ to: '.', search: (known) => ({ ...known, ...next }), replace: !isStep }),
    [navigate],
  );
  return { search, change };
}
