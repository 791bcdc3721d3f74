import { Group, SegmentedControl } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { apiQuery, type Device, type InstalledSoftware, type SoftwareChange } from '../../../../api/index.ts';
import {
  Empty,
  formatWord,
  Loaded,
  PagedTable,
  StateBadge,
  When,
  type Column,
} from '../../../../ui/index.ts';
import { useDeviceSearch } from '../device-search.ts';
import { SearchField } from '../../search-field.tsx';

const SHOWN = '50';

/** What is installed, or how that has changed. */
export function SoftwareTab({ device }: { device: Device }) {
  const { search, change } = useDeviceSearch();
  const showsChanges = search.show === 'changes';
  return (
    <>
      <Group gap="xs" mb="xs">
        <SegmentedControl
          aria-label="What is shown"
          data={[
            { value: 'installed', label: 'Installed' },
            { value: 'changes', label: 'Changes' },
          ]}
          value={showsChanges ? 'changes' : 'installed'}
          onChange={(show) => change({ show: show === 'changes' ? show : undefined })}
        />
        <SearchField label="Search software" value={search.q} onChange={(q) => change({ q })} />
      </Group>
      {showsChanges ? <Changes device={device} /> : <Installed device={device} />}
    </>
  );
}

const INSTALLED: readonly Column<InstalledSoftware>[] = [
  { header: 'Name', cell: ({ name }) => name, isName: true },
  { header: 'Version', cell: ({ version }) => version ?? 'Unknown' },
  { header: 'Publisher', cell: ({ publisher }) => publisher ?? 'Unknown' },
  { header: 'Installed', cell: ({ installedAt }) => <When at={installedAt} never="Unknown" /> },
];

function Installed({ device: { id } }: { device: Device }) {
  const { search, change } = useDeviceSearch();
  const query = useQuery({
    ...apiQuery('GET /devices/{id}/software', {
      params: { id },
      query: { page: String(search.page ?? 1), limit: SHOWN, search: search.q },
    }),
    placeholderData: keepPreviousData,
  });
  return (
    <Loaded query={query} what="Reading the software">
      {({ data, pagination }) =>
        data.length === 0 ? (
          <Empty title={search.q === undefined ? 'No software was reported' : 'No software has this name'}>
            {search.q === undefined
              ? 'The agent reports it with its inventory. “Refresh inventory” asks for it now.'
              : 'The search looks for a part of the name.'}
          </Empty>
        ) : (
          <PagedTable
            label="Installed software"
            rows={data}
            columns={INSTALLED}
            keyOf={({ name, version }) => `${name} ${version ?? ''}`}
            page={pagination}
            onPage={(page) => change({ page })}
          />
        )
      }
    </Loaded>
  );
}

const TONES = { installed: 'good', updated: 'info', removed: 'warning' } as const;

const CHANGES: readonly Column<SoftwareChange>[] = [
  { header: 'Found', cell: ({ at }) => <When at={at} />, width: 130 },
  {
    header: 'Change',
    cell: ({ change }) => <StateBadge tone={TONES[change]} label={formatWord(change)} />,
    width: 120,
  },
  { header: 'Name', cell: ({ name }) => name, isName: true },
  { header: 'Before', cell: ({ previousVersion }) => previousVersion ?? '–' },
  { header: 'After', cell: ({ version }) => version ?? '–' },
];

function Changes({ device: { id } }: { device: Device }) {
  const { search, change } = useDeviceSearch();
  const query = useQuery({
    ...apiQuery('GET /devices/{id}/software/changes', {
      params: { id },
      query: { page: String(search.page ?? 1), limit: SHOWN, search: search.q },
    }),
    placeholderData: keepPreviousData,
  });
  return (
    <Loaded query={query} what="Reading the changes">
      {({ data, pagination }) =>
        data.length === 0 ? (
          <Empty title="No change was seen">
            A change is found when an inventory differs from the one before.
          </Empty>
        ) : (
          <PagedTable
            label="Changes of software"
            rows={data}
            columns={CHANGES}
            keyOf={({ at, name, change: kind, version, previousVersion }) =>
              [at, kind, name, version, previousVersion].join(' ')
            }
            page={pagination}
            onPage={(page) => change({ page })}
          />
        )
      }
    </Loaded>
  );
}
