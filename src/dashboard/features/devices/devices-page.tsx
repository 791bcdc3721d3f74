import { Anchor, Button, Group, Text, TextInput } from '@mantine/core';
import { useHotkeys } from '@mantine/hooks';
import { IconDownload, IconSearch } from '@tabler/icons-react';
import { getRouteApi, useLocation } from '@tanstack/react-router';
import { useMemo, useRef, useState } from 'react';
import { z } from 'zod';
import { DeviceStatus, OsType, type DeviceSummary } from '../../../protocol/index.ts';
import { useNames } from '../../directory.ts';
import { useLiveDevices } from '../../live/index.ts';
import { useScope } from '../../routing.ts';
import {
  ChipChoice,
  Failure,
  formatCount,
  formatCounted,
  Loading,
  Page,
  saveFile,
  SYSTEM_NAMES,
  toCsv,
  Empty,
  TextLink,
  SavedViews,
  useRemembered,
} from '../../ui/index.ts';
import { DataTable } from '../../ui/data-table.tsx';
import type { Run } from '../scripts/index.ts';
import { BulkActions } from './bulk-actions.tsx';
import { ResultDrawer } from './result-drawer.tsx';
import { ColumnChooser } from './column-chooser.tsx';
import { DEFAULT_COLUMNS, deviceColumns } from './device-columns.tsx';
import { columnsToShow, isCustom } from './chosen-columns.ts';
import { detailColumns, useCustomFields, useDetails } from './detail-columns.tsx';
import { FilterSelect, useFilterName } from './filter-select.tsx';
import { deviceMatcher, facetCounts, bestDrop, type DeviceChoice } from './match-devices.ts';

const route = getRouteApi('/signed-in/devices');
const ColumnIds = z.array(z.string()).min(1);
const keyOf = (device: DeviceSummary): string => device.id;
/** Detail columns that a search reads even while they are not shown. */
const SEARCHED_DETAILS = ['lastUser', 'serialNumber', 'ipAddress'];

/** The fleet, live. The hub sends what changes; search and facets work on what is here. */
export function DevicesPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { orgId, siteId } = useScope();
  const names = useNames();
  const live = useLiveDevices({
    ...(orgId === undefined ? {} : { orgId }),
    ...(siteId === undefined ? {} : { siteId }),
    ...(search.filter === undefined ? {} : { filterId: search.filter }),
  });
  const [remembered, setVisible] = useRemembered<readonly string[]>('muster-device-columns', ColumnIds);
  const visible = search.columns ?? remembered ?? DEFAULT_COLUMNS;
  const [isChoosing, setChoosing] = useState(false);
  const customFields = useCustomFields(isChoosing || visible.some(isCustom));
  const isSearching = search.q !== undefined;
  const needed = useMemo(
    () => (isSearching ? [...visible, ...SEARCHED_DETAILS] : visible),
    [visible, isSearching],
  );
  const { details, error: detailsError, isCut } = useDetails(needed, customFields);
  const filterName = useFilterName(search.filter);
  const historyKey = useLocation({ select: ({ state }) => state.__TSR_key });
  const [bulkRun, setRun] = useState<Run>();
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const searchField = useRef<HTMLInputElement>(null);
  useHotkeys([['/', () => searchField.current?.focus()]]);

  const all = useMemo(
    () => [...deviceColumns(names), ...detailColumns(details, customFields)],
    [names, details, customFields],
  );
  const columns = useMemo(() => columnsToShow(all, visible, DEFAULT_COLUMNS), [visible, all]);
  // A field whose name has not been read yet stays chosen.
  const chosenIds = useMemo(() => {
    const isNamed = columns.some(({ id }) => visible.includes(id));
    return isNamed ? [...new Set(visible)] : columns.map(({ id }) => id);
  }, [columns, visible]);
  const textsOf = useMemo(
    () => (device: DeviceSummary) => [
      device.hostname,
      device.displayName ?? '',
      names.organization(device.orgId),
      names.site(device.siteId),
      // What is shown is searched as well, and what people ask for although it is not shown.
      ...Object.values(details.get(device.id)?.values ?? {}).map(String),
      ...Object.values(details.get(device.id)?.customFields ?? {}).map(String),
    ],
    [names, details],
  );
  const { q, status, os } = search;
  const rows = useMemo(
    () => live.devices.filter(deviceMatcher({ q, status, os }, textsOf)),
    [live.devices, q, status, os, textsOf],
  );
  const byStatus = useMemo(
    () => facetCounts(live.devices.filter(deviceMatcher({ q, os }, textsOf)), (device) => device.status),
    [live.devices, q, os, textsOf],
  );
  const waiting = useMemo(
    () => live.devices.filter((device) => device.status === 'pending').length,
    [live.devices],
  );
  const byOs = useMemo(
    () => facetCounts(live.devices.filter(deviceMatcher({ q, status }, textsOf)), (device) => device.osType),
    [live.devices, q, status, textsOf],
  );

  const change = (next: Partial<typeof search>) =>
    void navigate({ search: (previous) => ({ ...previous, ...next }), replace: true });
  // Only what can be seen is acted upon.
  const chosen = useMemo(
    () => (selected.size === 0 ? [] : rows.filter(({ id }) => selected.has(id))),
    [rows, selected],
  );
  const exportCsv = () => {
    const shown = columns.filter(({ value }) => value !== undefined);
    saveFile(
      'devices.csv',
      toCsv([
        shown.map(({ header }) => header),
        ...rows.map((row) => shown.map(({ value }) => value?.(row))),
      ]),
    );
  };

  return (
    <Page
      title="Devices"
      fill
      description={
        <output>
          {!live.complete && live.state === 'live'
            ? `${formatCount(rows.length)} shown so far, more are being sent`
            : `${formatCount(rows.length)} of ${formatCount(live.counts.total)} shown`}
          {live.state === 'stale' && ', not up to date'}
          {waiting > 0 && (
            <>
              {' · '}
              <Anchor
                inherit
                component="button"
                type="button"
                onClick={() => change({ status: ['pending'], q: undefined, os: undefined })}
              >
                {formatCounted(waiting, 'device')} {waiting === 1 ? 'waits' : 'wait'} for approval
              </Anchor>
            </>
          )}
          {' · '}
          <TextLink inherit to="/devices/decommissioned">
            Decommissioned
          </TextLink>
        </output>
      }
      actions={
        <>
          <SavedViews
            name="device"
            current={search}
            onOpen={(view) => void navigate({ search: () => ({ org: undefined, site: undefined, ...view }) })}
          />
          <ColumnChooser
            all={all}
            visible={chosenIds}
            onOpen={() => setChoosing(true)}
            onChange={(next) => {
              setVisible(next);
              change({ columns: [...next] });
            }}
          />
          <Button variant="default" leftSection={<IconDownload size={14} aria-hidden />} onClick={exportCsv}>
            Export CSV
          </Button>
        </>
      }
    >
      <Group gap="xs">
        <TextInput
          ref={searchField}
          w={260}
          placeholder="Search names, users, sites, addresses"
          aria-label="Search devices"
          leftSection={<IconSearch size={14} aria-hidden />}
          value={q ?? ''}
          onChange={(event) => change({ q: event.currentTarget.value || undefined })}
        />
        <FilterSelect value={search.filter} orgId={orgId} onChange={(filter) => change({ filter })} />
        <ChipChoice
          label="Status"
          values={DeviceStatus.options}
          counts={byStatus}
          chosen={status ?? []}
          onChange={(chosen) => change({ status: chosen.length === 0 ? undefined : chosen })}
        />
        <ChipChoice
          label="System"
          values={OsType.options}
          counts={byOs}
          nameOf={(value) => SYSTEM_NAMES[value]}
          chosen={os ?? []}
          onChange={(chosen) => change({ os: chosen.length === 0 ? undefined : chosen })}
        />
        {chosen.length > 0 && <BulkActions devices={chosen} onRun={setRun} />}
        {selected.size > chosen.length && (
          <Text size="sm">{formatCount(selected.size - chosen.length)} more are chosen and not shown</Text>
        )}
      </Group>
      {live.error !== undefined && <Failure error={live.error} />}
      {detailsError !== null && <Failure error={detailsError} />}
      {isCut && (
        <Text size="sm">
          {isSearching
            ? 'The fleet is too large to search all users, serial numbers and addresses. Choose an organization to search them all.'
            : 'The fleet is too large for all values of the added columns. Choose an organization to see them all.'}
        </Text>
      )}
      {live.state === 'loading' && <Loading what="Reading the fleet" />}
      {live.state !== 'loading' && rows.length === 0 && live.error === undefined && live.complete && (
        <NothingShown
          devices={live.devices}
          choice={{ q, status, os }}
          textsOf={textsOf}
          filterName={search.filter === undefined ? undefined : (filterName ?? 'The chosen filter')}
          scope={siteId !== undefined ? 'site' : orgId !== undefined ? 'organization' : 'all'}
          onDrop={(choice) =>
            change(choice === 'scope' ? { org: undefined, site: undefined } : { [choice]: undefined })
          }
          onDropAll={() => change({ q: undefined, status: undefined, os: undefined })}
        />
      )}
      {live.error !== undefined && search.filter !== undefined && (
        <Group>
          <Button variant="default" onClick={() => change({ filter: undefined })}>
            Drop the filter
          </Button>
        </Group>
      )}
      {rows.length > 0 && (
        <DataTable
          label="Devices"
          rows={rows}
          columns={columns}
          keyOf={keyOf}
          sort={{ column: search.sort ?? 'name', descending: search.desc === true }}
          onSort={({ column, descending }) => change({ sort: column, desc: descending || undefined })}
          onOpen={(device) => void navigate({ to: '/devices/$deviceId', params: { deviceId: device.id } })}
          selected={selected}
          onSelect={setSelected}
          place={historyKey}
          takesKeys
        />
      )}
      <ResultDrawer run={bulkRun} onClose={() => setRun(undefined)} />
    </Page>
  );
}

const NAMES: Record<keyof DeviceChoice, string> = {
  q: 'the search',
  status: 'the choice of the status',
  os: 'the choice of the system',
};

/** Why no device is shown, and the step that shows the most. */
function NothingShown({
  devices,
  choice,
  textsOf,
  filterName,
  scope,
  onDrop,
  onDropAll,
}: {
  /** All devices of the subscription. */
  devices: readonly DeviceSummary[];
  choice: DeviceChoice;
  textsOf: (device: DeviceSummary) => readonly string[];
  /** The name of the saved filter that the hub applies, if any. */
  filterName: string | undefined;
  scope: 'all' | 'organization' | 'site';
  onDrop: (choice: keyof DeviceChoice | 'filter' | 'scope') => void;
  onDropAll: () => void;
}) {
  if (devices.length > 0) {
    const drop = bestDrop(devices, choice, textsOf);
    return (
      <Empty
        title="No device matches"
        action={
          <Group>
            {drop !== undefined && (
              <Button onClick={() => onDrop(drop.choice)}>
                Drop {NAMES[drop.choice]}: {formatCount(drop.count)} {drop.count === 1 ? 'device' : 'devices'}
              </Button>
            )}
            <Button variant="default" onClick={onDropAll}>
              Drop all choices
            </Button>
          </Group>
        }
      >
        {drop === undefined
          ? 'No single choice is to blame: several of them exclude every device.'
          : `Most devices are removed by ${NAMES[drop.choice]}.`}
      </Empty>
    );
  }
  if (filterName !== undefined) {
    return (
      <Empty
        title="No device matches the filter"
        action={<Button onClick={() => onDrop('filter')}>Drop the filter</Button>}
      >
        {filterName} finds no device{scope === 'all' ? '' : ` in this ${scope}`}. Devices appear here as soon
        as they match.
      </Empty>
    );
  }
  if (scope !== 'all') {
    return (
      <Empty
        title={`This ${scope} has no devices`}
        action={<Button onClick={() => onDrop('scope')}>Show all organizations</Button>}
      >
        A device appears here as soon as its agent is installed with a key of this {scope}.
      </Empty>
    );
  }
  return (
    <Empty title="No devices yet" action={<TextLink to="/">To the overview</TextLink>}>
      A device appears here as soon as its agent is installed. The page Enrollment has one line for each
      system.
    </Empty>
  );
}
