import { getRouteApi } from '@tanstack/react-router';
import { useApiChange, type Device, useList } from '../../api/index.ts';
import { useNames } from '../../directory.ts';
import { useScope } from '../../routing.ts';
import { useRefusal } from '../../session.ts';
import {
  ConfirmAction,
  SYSTEM_NAMES,
  When,
  type Column,
  TextLink,
  ListPage,
  useAddress,
} from '../../ui/index.ts';

const route = getRouteApi('/signed-in/devices/decommissioned');

/** The devices that were taken out of service, and the way back. */
export function DecommissionedPage() {
  const address = useAddress(route.useSearch());
  const { q, page = 1 } = address.search;
  const { orgId, siteId } = useScope();
  const names = useNames();
  const refusal = useRefusal('devices:delete');
  const query = useList('GET /devices', {
    query: { status: 'decommissioned', page: String(page), limit: '50', search: q, orgId, siteId },
  });
  const restore = useApiChange('POST /devices/{id}/restore', {
    refreshes: ['GET /devices', 'GET /devices/{id}'],
  });
  return (
    <ListPage
      title="Decommissioned devices"
      description={
        <TextLink inherit to="/devices">
          Devices in service
        </TextLink>
      }
      query={query}
      noun="devices"
      label="Decommissioned devices"
      keyOf={({ id }) => id}
      address={address}
      facets={[{ kind: 'text', name: 'q', label: 'Search names', placeholder: 'Search names' }]}
      empty={{
        title: 'No device is decommissioned',
        text: 'A device that leaves for good is decommissioned on its page, under More.',
      }}
      noneFound={{ title: 'No device has this name' }}
      columns={columns({
        names,
        refusal,
        restore: (id) => restore.mutateAsync({ params: { id } }),
      })}
    ></ListPage>
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
