import { getRouteApi } from '@tanstack/react-router';
import { useList, type SoftwareTitle } from '../../api/index.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { formatCount, formatCounted, ListPage, TextLink, useAddress } from '../../ui/index.ts';

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
        { header: 'Name', isName: true, cell: ({ name }) => name },
        { header: 'Devices', align: 'right', cell: ({ deviceCount }) => formatCount(deviceCount) },
        { header: 'Versions', cell: versionsOf },
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
