import { Anchor, Button, Group, Text, TextInput } from '@mantine/core';
import { useHotkeys } from '@mantine/hooks';
import { IconDownload, IconSearch } from '@tabler/icons-react';
import { getRouteApi, Link, useLocation } from '@tanstack/react-router';
import { useMemo, useRef, useState } from 'react';
import { z } from 'zod';
import { DeviceStatus, OsType, type DeviceSummary } from '../../../../protocol/index.ts';
import { useNames } from '../../../directory/index.ts';
import { useLiveDevices } from '../../../live/index.ts';
import { useScope } from '../../../routing/index.ts';
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
} from '../../../ui/index.ts';
import { DataTable } from '../../../ui/data-table/index.ts';
import { BulkActions } from './bulk/bulk-actions.tsx';
import { OutcomeDrawer } from './bulk/outcome-drawer.tsx';
import type { Run } from '../../scripts/index.ts';
import { ColumnChooser } from './column-chooser.tsx';
import { DEFAULT_COLUMNS, deviceColumns } from './device-columns.tsx';
import { FilterSelect, useFilterName } from './filter-select.tsx';
import { deviceMatcher, facetCounts } from './match-devices.ts';
import { NothingShown } from './nothing-shown.tsx';
import { useRemembered } from './remembered.ts';
import { SavedViews } from './saved-views.tsx';

const route = getRouteApi('/signed-in/devices');
const ColumnIds = z.array(z.string()).min(1);
const keyOf = (device: DeviceSummary): string => device.id;

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
  const visible = remembered ?? DEFAULT_COLUMNS;
  const filterName = useFilterName(search.filter);
  const historyKey = useLocation({ select: ({ state }) => state.__TSR_key });
  const [bulkRun, setRun] = useState<Run>();
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const searchField = useRef<HTMLInputElement>(null);
  useHotkeys([['/', () => searchField.current?.focus()]]);

  const all = useMemo(() => deviceColumns(names), [names]);
  const columns = useMemo(
    () => visible.flatMap((id) => all.find((column) => column.id === id) ?? []),
    [visible, all],
  );
  const textsOf = useMemo(
    () => (device: DeviceSummary) => [
      device.hostname,
      device.displayName ?? '',
      names.organization(device.orgId),
      names.site(device.siteId),
    ],
    [names],
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
          <Anchor inherit renderRoot={(props) => <Link {...props} to="/devices/decommissioned" />}>
            Decommissioned
          </Anchor>
        </output>
      }
      actions={
        <>
          <SavedViews
            current={search}
            onOpen={(view) => void navigate({ search: () => ({ org: undefined, site: undefined, ...view }) })}
          />
          <ColumnChooser all={all} visible={visible} onChange={setVisible} />
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
          placeholder="Search names, organizations, sites"
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
      <OutcomeDrawer run={bulkRun} onClose={() => setRun(undefined)} />
    </Page>
  );
}
