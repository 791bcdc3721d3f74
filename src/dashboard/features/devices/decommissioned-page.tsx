import { Anchor } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { apiQuery, useApiChange, type Device } from '../../../api/index.ts';
import { useNames } from '../../../directory/index.ts';
import { useScope } from '../../../routing/index.ts';
import { useRefusal } from '../../../session/index.ts';
import {
  ConfirmAction,
  Empty,
  Loaded,
  Page,
  PagedTable,
  SYSTEM_NAMES,
  When,
  type Column,
} from '../../../ui/index.ts';
import { SearchField } from '../search-field.tsx';

const route = getRouteApi('/signed-in/devices/decommissioned');

/** The devices that were taken out of service, and the way back. */
export function DecommissionedPage() {
  const { q, page = 1 } = route.useSearch();
  const navigate = route.useNavigate();
  const { orgId, siteId } = useScope();
  const names = useNames();
  const refusal = useRefusal('devices:delete');
  const query = useQuery({
    ...apiQuery('GET /devices', {
      query: { status: 'decommissioned', page: String(page), limit: '50', search: q, orgId, siteId },
    }),
    placeholderData: keepPreviousData,
  });
  const restore = useApiChange('POST /devices/{id}/restore', {
    refreshes: ['GET /devices', 'GET /devices/{id}'],
  });
  return (
    <Page
      title="Decommissioned devices"
      description={
        <Anchor inherit renderRoot={(props) => <Link {...props} to="/devices" />}>
          Devices in service
        </Anchor>
      }
    >
      <SearchField
        label="Search names"
        value={q}
        onChange={(next) => void navigate({ search: (known) => ({ ...known, q: next, page: undefined }) })}
      />
      <Loaded query={query} what="Reading the devices">
        {({ data, pagination }) =>
          data.length === 0 ? (
            <Empty title={q === undefined ? 'No device is decommissioned' : 'No device has this name'}>
              A device that leaves for good is decommissioned on its page, under More.
            </Empty>
          ) : (
            <PagedTable
              label="Decommissioned devices"
              rows={data}
              columns={columns({
                names,
                refusal,
                restore: (id) => restore.mutateAsync({ params: { id } }),
              })}
              keyOf={({ id }) => id}
              page={pagination}
              onPage={(next) => void navigate({ search: (known) => ({ ...known, page: next }) })}
            />
          )
        }
      </Loaded>
    </Page>
  );
}

const columns = ({
  names,
  refusal,
  restore,
}: {
  names: ReturnType<typeof useNames>;
  refusal: string | undefined;
  restore: (id: string) => Promise<unknown>;
}): Column<Device>[] => [
  { header: 'Name', isName: true, cell: (device) => device.displayName ?? device.hostname },
  { header: 'Organization', cell: ({ orgId }) => names.organization(orgId) },
  { header: 'Site', cell: ({ siteId }) => names.site(siteId) },
  { header: 'System', cell: ({ osType }) => SYSTEM_NAMES[osType] },
  { header: 'Last seen', cell: ({ lastSeenAt }) => <When at={lastSeenAt} /> },
  {
    header: 'Action',
    width: 160,
    cell: (device) => (
      <ConfirmAction
        size="compact-xs"
        variant="default"
        color="blue"
        title="Put the device back in service"
        question={`${device.displayName ?? device.hostname} returns to the lists as it was. Its agent has to enroll again before it connects.`}
        confirm="Put back"
        refusal={refusal}
        run={() => restore(device.id)}
      >
        Put back in service
      </ConfirmAction>
    ),
  },
];
