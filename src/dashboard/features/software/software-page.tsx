import { Anchor, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { IconSearch } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { apiQuery, type SoftwareTitle } from '../../api/index.ts';
import { scopeQuery, useScope } from '../../routing/index.ts';
import { Empty, formatCount, formatCounted, Loaded, Page, PagedTable } from '../../ui/index.ts';

const route = getRouteApi('/signed-in/software');
const PAUSE_MS = 300;
/** More versions than these are counted. */
const VERSIONS_SHOWN = 3;

/** Which programs the devices have, and in which versions, as they have reported it. */
export function SoftwarePage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { orgId } = scopeQuery(useScope());
  const change = (next: Partial<typeof search>) =>
    void navigate({ search: (previous) => ({ ...previous, page: undefined, ...next }), replace: true });
  const searchFor = useDebouncedCallback((q: string) => change({ q: q === '' ? undefined : q }), PAUSE_MS);
  const software = useQuery({
    ...apiQuery('GET /software', {
      query: { search: search.q, orgId, page: String(search.page ?? 1) },
    }),
    placeholderData: keepPreviousData,
  });
  return (
    <Page
      title="Software"
      description="Programs on all devices, as their inventories report them. The page of a device has its own list, with changes."
    >
      <TextInput
        w={260}
        placeholder="Search programs"
        aria-label="Search programs"
        leftSection={<IconSearch size={14} aria-hidden />}
        defaultValue={search.q ?? ''}
        onChange={(event) => searchFor(event.currentTarget.value)}
      />
      <Loaded query={software} what="Reading the software">
        {({ data, pagination }) =>
          data.length === 0 ? (
            search.q === undefined ? (
              <Empty
                title="No software was reported yet"
                action={
                  <Anchor renderRoot={(props) => <Link {...props} to="/devices" />}>All devices</Anchor>
                }
              >
                Agents report it with their inventory, soon after they are connected for the first time.
              </Empty>
            ) : (
              <Empty title="No program has this name">The search looks for a part of the name.</Empty>
            )
          ) : (
            <PagedTable
              label="Software of all devices"
              rows={data}
              keyOf={({ name }) => name}
              page={pagination}
              onPage={(page) => change({ page })}
              columns={[
                { header: 'Name', isName: true, cell: ({ name }) => name },
                { header: 'Devices', align: 'right', cell: ({ deviceCount }) => formatCount(deviceCount) },
                { header: 'Versions', cell: versionsOf },
              ]}
            />
          )
        }
      </Loaded>
    </Page>
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
