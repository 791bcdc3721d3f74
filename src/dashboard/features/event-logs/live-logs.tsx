import { Button, Group } from '@mantine/core';
import { useClipboard } from '@mantine/hooks';
import { IconDatabase, IconPlugConnectedX, IconRefresh } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useMemo, useRef, useState } from 'react';
import { ApiError, apiQuery, pathOf, type EventLogMetadata } from '../../../api/index.ts';
import { Empty, Failure, Loading, presenceText } from '../../../ui/index.ts';
import { useLogFeed } from '../feed/use-log-feed.ts';
import { curlOf } from '../model/curl.ts';
import { deviceConditions, localMatcher, type DeviceConditions } from '../model/log-filter.ts';
import { countLevels } from '../model/log-row.ts';
import { NO_CONDITIONS, viewOf } from '../model/log-search.ts';
import { QueryBar } from '../query-bar/query-bar.tsx';
import { ViewsMenu } from '../query-bar/views-menu.tsx';
import { LogViewer, zoneOf } from '../viewer/log-viewer.tsx';
import { usePreferences } from '../viewer/preferences.ts';
import { nameOfDevice, type DeviceLogsProps } from './device-logs.ts';
import styles from './live-event-log.module.css';
import { LiveFooter } from './live-footer.tsx';
import { LogList } from './log-list.tsx';
import { Notice, QueryNotice } from './query-notice.tsx';
import { useEntryAbilities, useLinkedEntry } from './use-entries.ts';

const LIST_STALE_MS = 60_000;

/** The logs of a connected device, read from it while somebody looks. */
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
  // What the device is asked; conditions that are applied here ask nobody.
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
  const toStored = () => change({ ...viewOf(search), log: undefined, record: undefined, stored: true }, true);

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
          <ViewsMenu
            search={search}
            memory={memory}
            onApply={(view) => change({ ...NO_CONDITIONS, record: undefined, ...view }, true)}
          />
          <Button variant="default" leftSection={<IconDatabase size={14} aria-hidden />} onClick={toStored}>
            Stored events
          </Button>
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
                <Notice icon={<IconPlugConnectedX size={16} />}>
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
                onStored={toStored}
              />
              {state.tail.ended !== undefined && (
                <Notice
                  icon={<IconPlugConnectedX size={16} />}
                  color="blue"
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
