import {
  Button,
  Group,
  Tabs,
  Text,
  Autocomplete,
  MultiSelect,
  SegmentedControl,
  Select,
} from '@mantine/core';
import { IconPlayerPlay } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useMemo, useRef, useState } from 'react';
import type { QueryOutcome, DeviceSummary } from '../../../protocol/index.ts';
import { useLiveDevices } from '../../live/index.ts';
import { useScope } from '../../routing.ts';
import { ButtonLink, Empty, formatCount, Page, Failure } from '../../ui/index.ts';
import { apiQuery } from '../../api/index.ts';
import { AskLater, type AskedQuery } from './ask-later.tsx';
import { QueryNotice } from './query-notice.tsx';
import { useLogFeed } from './use-log-feed.ts';
import { type LogTarget } from './log-feed.ts';
import { deviceConditions, localMatcher } from './log-filter.ts';
import { countLevels, MAX_ROWS } from './log-row.ts';
import { LogSearch, NO_CONDITIONS, viewOf } from './log-search.ts';
import { QueryBar } from './query-bar.tsx';
import { LogViews } from './log-views.tsx';
import { LogViewer, zoneOf } from './log-viewer.tsx';
import { usePreferences } from './viewer-toolbar.tsx';
import styles from './log-viewer.module.css';
import { groupOutcomes, OUTCOME_NAMES, OUTCOMES, OutcomeList } from './device-results.tsx';

const route = getRouteApi('/signed-in/event-logs');
const ENTRIES = 'entries';
const NONE: readonly QueryOutcome[] = [];

/** One query to many devices, and how each of them answered. */
export function EventLogsPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { orgId, siteId } = useScope();
  const scope = {
    ...(orgId === undefined ? {} : { orgId }),
    ...(siteId === undefined ? {} : { siteId }),
  };
  const live = useLiveDevices(scope);
  const { feed, state } = useLogFeed();
  const [preferences, setPreferences] = usePreferences();
  const [tab, setTab] = useState<string>(ENTRIES);
  /** The query of the shown results. */
  const [asked, setAsked] = useState<string>();
  const [askedQuery, setAskedQuery] = useState<AskedQuery>();
  const filterField = useRef<HTMLInputElement>(null);

  const devices = useMemo(() => new Map(live.devices.map((device) => [device.id, device])), [live.devices]);
  const nameOf = (id: string) => {
    const device = devices.get(id);
    return device === undefined ? id : (device.displayName ?? device.hostname);
  };
  const change = (next: Partial<typeof search>, isStep = false) =>
    void navigate({ search: (known) => ({ ...known, ...next }), replace: !isStep });

  const { filter, devices: chosen, log, limit } = search;
  // The filter is resolved here, so that the chosen organization and site narrow it.
  const filtered = useLiveDevices(filter === undefined ? undefined : { ...scope, filterId: filter });
  const deviceIds = useMemo(
    () => (filter === undefined ? chosen : filtered.devices.map(({ id }) => id).sort()),
    [filter, chosen, filtered.devices],
  );
  const target = targetOf(log, deviceIds);
  const matches = useMemo(() => localMatcher(search), [search]);
  const question = JSON.stringify([target, deviceConditions(search, 0), search.range, limit]);
  const run = () => {
    if (target === undefined) return;
    setAsked(question);
    setTab(ENTRIES);
    const query = {
      name: target.name,
      conditions: deviceConditions(search, Date.now()),
      limit: limit ?? DEFAULT_LIMIT,
    };
    setAskedQuery(query);
    feed.start(target, query.conditions, query.limit);
  };
  const rows = useMemo(
    () => (matches === undefined ? state.rows : state.rows.filter(matches)),
    [state.rows, matches],
  );
  const counts = useMemo(() => countLevels(rows), [rows]);
  const sources = useMemo(() => [...new Set(state.rows.map(({ source }) => source))].sort(), [state.rows]);
  const answering = useMemo(() => new Set(state.rows.map(({ deviceId }) => deviceId)).size, [state.rows]);
  const outcomes = state.query.state === 'ended' ? state.query.outcomes : NONE;
  const groups = useMemo(() => groupOutcomes(outcomes), [outcomes]);
  const isRunning = state.query.state === 'running';
  const view = viewOf(LogSearch.parse(search));

  return (
    <Page
      title="Event logs"
      fill
      actions={
        <ButtonLink to="/event-logs/questions" variant="default">
          Standing questions
        </ButtonLink>
      }
    >
      <Group justify="space-between" align="flex-start" gap="xs">
        <TargetPicker
          target={{ filter, devices: chosen, log, limit }}
          devices={live.devices}
          onChange={(next) => change(next)}
        />
        <Button
          leftSection={<IconPlayerPlay size={14} aria-hidden />}
          disabled={target === undefined}
          loading={isRunning}
          onClick={run}
        >
          Run query
        </Button>
      </Group>
      <Text size="sm" component="output">
        {targetText(deviceIds, filter !== undefined && filtered.state === 'loading', filtered.error)}
      </Text>
      <QueryBar
        search={search}
        onSearch={change}
        counts={counts}
        sources={sources}
        zone={zoneOf(preferences, undefined)}
        filterField={filterField}
      >
        <LogViews
          search={view}
          system="fleet"
          onApply={(saved) => change({ ...NO_CONDITIONS, ...saved }, true)}
        />
      </QueryBar>
      {asked === undefined ? (
        <Empty title="Nothing has been asked yet">
          One query asks many devices at once for the newest entries of a log. Choose devices and a log,
          narrow the query if you like, and ask. Each read is noted in the audit trail of its organization.
        </Empty>
      ) : (
        <Tabs
          value={tab}
          onChange={(next) => setTab(next ?? ENTRIES)}
          keepMounted={false}
          style={{ display: 'flex', flex: 1, flexDirection: 'column', minHeight: 0 }}
        >
          <Tabs.List aria-label="Outcomes">
            <Tabs.Tab value={ENTRIES}>
              Entries {formatCount(rows.length)}
              {isRunning &&
                ` of ${formatCount(answering)} of ${formatCount(deviceIds?.length ?? 0)} devices so far`}
            </Tabs.Tab>
            {OUTCOMES.filter((outcome) => outcome !== 'cancelled' || groups.cancelled.length > 0).map(
              (outcome) => (
                <Tabs.Tab key={outcome} value={outcome} disabled={isRunning}>
                  {OUTCOME_NAMES[outcome]} {formatCount(groups[outcome].length)}
                </Tabs.Tab>
              ),
            )}
          </Tabs.List>
          <Tabs.Panel value={ENTRIES} pt={6} style={PANEL}>
            <div className={styles['panel']}>
              <LogViewer
                rows={rows}
                search={search}
                onSearch={change}
                preferences={preferences}
                onPreferences={setPreferences}
                filterField={filterField}
                deviceZone={undefined}
                deviceName={nameOf}
                showsDevice
                abilities={{}}
                fileName={`event-logs-${log ?? ''}`.replaceAll(/[^\w.-]+/g, '_')}
                label="Entries of all devices that answered"
                notices={
                  <>
                    <QueryNotice
                      query={state.query}
                      search={search}
                      logSize={undefined}
                      onSearch={change}
                      onCancel={() => feed.cancel()}
                      onAgain={run}
                      onStored={undefined}
                    />
                    {asked !== question && !isRunning && (
                      <Text size="sm">
                        The conditions have changed since these devices were asked. Ask again to apply them.
                      </Text>
                    )}
                  </>
                }
                empty={
                  isRunning ? null : (
                    <Empty title="No entries">
                      No device has sent an entry that meets the conditions. The tabs above show what each of
                      them answered.
                    </Empty>
                  )
                }
                footer={
                  <Text size="xs" component="output">
                    {formatCount(rows.length)} entries of {formatCount(answering)} devices
                    {state.dropped > 0 &&
                      ` · at most ${formatCount(MAX_ROWS)} are held, the ${formatCount(state.dropped)} oldest were dropped`}
                  </Text>
                }
              />
            </div>
          </Tabs.Panel>
          {OUTCOMES.map((outcome) => (
            <Tabs.Panel key={outcome} value={outcome} pt={6} style={PANEL}>
              <div className={styles['panel']}>
                {outcome === 'offline' && askedQuery !== undefined && groups.offline.length > 0 && (
                  <Group pb={6}>
                    <AskLater
                      deviceIds={groups.offline.map(({ deviceId }) => deviceId)}
                      orgId={commonOrganization(groups.offline, devices)}
                      asked={askedQuery}
                    />
                  </Group>
                )}
                <OutcomeList outcome={outcome} outcomes={groups[outcome]} devices={devices} view={view} />
              </div>
            </Tabs.Panel>
          ))}
        </Tabs>
      )}
    </Page>
  );
}

const PANEL = { flex: 1, minHeight: 0 } as const;

/** The organization of all of these devices, if they are of one. */
function commonOrganization(
  outcomes: readonly QueryOutcome[],
  devices: ReadonlyMap<string, DeviceSummary>,
): string | undefined {
  const [first, ...others] = new Set(outcomes.map(({ deviceId }) => devices.get(deviceId)?.orgId));
  return others.length === 0 ? first : undefined;
}

/** As many devices as one query may ask. */
const MAX_DEVICES = 500;

function targetOf(name: string | undefined, deviceIds: readonly string[] | undefined): LogTarget | undefined {
  if (name === undefined || name.trim() === '' || deviceIds === undefined) return undefined;
  if (deviceIds.length === 0 || deviceIds.length > MAX_DEVICES) return undefined;
  return { name: name.trim(), deviceIds };
}

/** Why nothing can be asked yet, or what is asked. */
function targetText(
  deviceIds: readonly string[] | undefined,
  isResolving: boolean,
  error: Error | undefined,
): string {
  if (error !== undefined) return error.message;
  if (isResolving) return 'Looking for the devices of the filter …';
  if (deviceIds === undefined) return 'Choose a saved filter or devices, and a log.';
  if (deviceIds.length === 0) return 'No device matches in the chosen organization and site.';
  if (deviceIds.length > MAX_DEVICES) {
    return `${formatCount(deviceIds.length)} devices match; at most ${MAX_DEVICES} can be asked at once. Choose a narrower filter, or a site in the header.`;
  }
  return `${formatCount(deviceIds.length)} ${deviceIds.length === 1 ? 'device' : 'devices'}`;
}

interface FleetTarget {
  filter: string | undefined;
  devices: string[] | undefined;
  log: string | undefined;
  limit: number | undefined;
}

const LOGS = ['System', 'Application', 'Security', 'Setup', 'Kernel', 'Auth', 'Install'];
const LIMITS = [10, 50, 100, 500];
const DEFAULT_LIMIT = 50;
const SHOWN = 50;

/** Which devices are asked, and for which log. */
function TargetPicker({
  target,
  devices,
  onChange,
}: {
  target: FleetTarget;
  devices: readonly DeviceSummary[];
  onChange: (change: Partial<FleetTarget>) => void;
}) {
  const { orgId } = useScope();
  const filters = useQuery(apiQuery('GET /filters'));
  const [kind, setKind] = useState(target.devices === undefined ? 'filter' : 'devices');
  const offered = filters.data?.data.filter((filter) => orgId === undefined || filter.orgId === orgId) ?? [];
  const names = useMemo(
    () =>
      devices
        .map(({ id, displayName, hostname, status }) => ({
          value: id,
          label: `${displayName ?? hostname} (${status})`,
        }))
        .sort((a, b) => a.label.localeCompare(b.label)),
    [devices],
  );
  return (
    <Group gap={6} align="flex-start">
      <SegmentedControl
        aria-label="How devices are chosen"
        value={kind}
        onChange={(next) => {
          setKind(next);
          onChange({ filter: undefined, devices: undefined });
        }}
        data={[
          { value: 'filter', label: 'Saved filter' },
          { value: 'devices', label: 'Chosen devices' },
        ]}
      />
      {kind === 'filter' ? (
        <Select
          w={260}
          searchable
          clearable
          placeholder={filters.isPending ? 'Reading filters …' : 'Choose a saved filter'}
          aria-label="Saved filter"
          nothingFoundMessage="No saved filter has this name."
          data={offered.map(({ id, name }) => ({ value: id, label: name }))}
          value={target.filter ?? null}
          onChange={(filter) => onChange({ filter: filter ?? undefined, devices: undefined })}
        />
      ) : (
        <MultiSelect
          w={360}
          searchable
          clearable
          limit={SHOWN}
          maxValues={500}
          placeholder="Names of devices"
          aria-label="Devices"
          nothingFoundMessage="No device has this name."
          data={names}
          value={target.devices ?? []}
          onChange={(chosen) =>
            onChange({ devices: chosen.length === 0 ? undefined : chosen, filter: undefined })
          }
        />
      )}
      <Autocomplete
        size="xs"
        w={170}
        maxLength={255}
        placeholder="Name of the log"
        aria-label="Name of the log"
        data={LOGS}
        value={target.log ?? ''}
        onChange={(log) => onChange({ log: log || undefined })}
      />
      <Select
        w={170}
        aria-label="The most entries of each device"
        allowDeselect={false}
        data={LIMITS.map((limit) => ({ value: String(limit), label: `${limit} of each device` }))}
        value={String(target.limit ?? DEFAULT_LIMIT)}
        onChange={(limit) => onChange({ limit: limit === null ? undefined : Number(limit) })}
      />
      {filters.error !== null && <Failure error={filters.error} retry={() => void filters.refetch()} />}
    </Group>
  );
}
