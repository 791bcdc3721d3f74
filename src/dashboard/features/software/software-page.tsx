import { getRouteApi } from '@tanstack/react-router';
import { useList, type SoftwareTitle } from '../../api/index.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { useNames } from '../../directory.ts';
import {
  DetailsDrawer,
  formatCount,
  formatCounted,
  formatTime,
  List,
  ListPage,
  OpenName,
  TextLink,
  TwoLines,
  useAddress,
  useLocalAddress,
  When,
} from '../../ui/index.ts';

const route = getRouteApi('/signed-in/software');
/** More versions than these are counted. */
const VERSIONS_SHOWN = 3;

/** Which programs the devices have, and in which versions, as they have reported it. */
export function SoftwarePage() {
  const address = useAddress(route.useSearch());
  const { q, page = 1 } = address.search;
  const { orgId } = scopeQuery(useScope());
  const software = useList('GET /software', { query: { search: q, orgId, page: String(page) } });
  return (
    <ListPage
      title="Software"
      description="Programs on all devices, as their inventories report them. The page of a device has its own list, with changes."
      query={software}
      noun="programs"
      label="Software of all devices"
      keyOf={({ name }) => name}
      address={address}
      facets={[{ kind: 'text', name: 'q', label: 'Search programs', placeholder: 'Search programs' }]}
      empty={{
        title: 'No software was reported yet',
        text: 'Agents report it with their inventory, soon after they are connected for the first time.',
        action: <TextLink to="/devices">All devices</TextLink>,
      }}
      noneFound={{ title: 'No program has this name', text: 'The search looks for a part of the name.' }}
      columns={[
        {
          header: 'Name',
          isName: true,
          cell: ({ name }) => <OpenName onOpen={() => address.set({ title: name })}>{name}</OpenName>,
        },
        { header: 'Devices', align: 'right', cell: ({ deviceCount }) => formatCount(deviceCount) },
        { header: 'Versions', cell: versionsOf },
      ]}
    >
      <DetailsDrawer
        opened={address.search.title}
        onClose={() => address.set({ title: undefined })}
        title={address.search.title ?? ''}
        size="xl"
      >
        {(title) => <Installations key={title} name={title} />}
      </DetailsDrawer>
    </ListPage>
  );
}

/** Which devices have a program, in which version, and since when. */
function Installations({ name }: { name: string }) {
  const address = useLocalAddress<{ page?: number | undefined }>({});
  const names = useNames();
  const { orgId } = scopeQuery(useScope());
  const { page = 1 } = address.search;
  const installations = useList('GET /software/installations', {
    query: { name, orgId, page: String(page) },
  });
  return (
    <List
      query={installations}
      noun="devices"
      label={`Devices with ${name}`}
      keyOf={({ deviceId, version }) => `${deviceId} ${version ?? ''}`}
      address={address}
      empty={{
        title: 'No device has it',
        text: 'It was removed, or only decommissioned devices have it.',
      }}
      columns={[
        {
          header: 'Device',
          isName: true,
          cell: ({ deviceId, hostname, displayName }) => (
            <TextLink to="/devices/$deviceId" params={{ deviceId }} search={{ tab: 'software', q: name }}>
              {displayName ?? hostname}
            </TextLink>
          ),
        },
        { header: 'Organization', cell: (row) => names.organization(row.orgId) },
        { header: 'Version', cell: ({ version }) => version ?? 'Unknown' },
        {
          header: 'Since',
          cell: ({ installedAt, firstSeenAt }) =>
            firstSeenAt === null ? (
              'Before this was recorded'
            ) : (
              <TwoLines below={installedAt === null ? '' : `Installed ${formatTime(new Date(installedAt))}`}>
                <When at={firstSeenAt} />
              </TwoLines>
            ),
        },
      ]}
    />
  );
}

/** "1.2.3 on 40 devices, 1.2.2 on 1 device, and 5 more versions" */
function versionsOf({ versions, versionCount }: SoftwareTitle): string {
  const shown = versions
    .slice(0, VERSIONS_SHOWN)
    .map(({ version, deviceCount }) => `${version ?? 'Unknown'} on ${formatCounted(deviceCount, 'device')}`);
  const rest = versionCount - shown.length;
  return [...shown, ...(rest > 0 ? [`and ${formatCounted(rest, 'more version')}`] : [])].join(', ');
}
