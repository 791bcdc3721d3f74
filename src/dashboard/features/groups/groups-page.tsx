import { Group, TextInput } from '@mantine/core';
import { useDebouncedCallback, useDisclosure } from '@mantine/hooks';
import { IconFilter, IconHandFinger, IconPlus, IconSearch } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { apiQuery } from '../../api/index.ts';
import { useNames } from '../../directory/index.ts';
import { scopeQuery, useScope } from '../../routing/index.ts';
import { useRefusal } from '../../session/index.ts';
import {
  Action,
  Empty,
  formatCount,
  Loaded,
  NameCell,
  Page,
  PagedTable,
  StateBadge,
  When,
} from '../../ui/index.ts';
import { GroupDialog } from './group-dialog.tsx';

const route = getRouteApi('/signed-in/groups');
const REFRESH_MS = 15_000;

/** Devices that belong together: chosen by hand, or found by a filter. */
export function GroupsPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const scope = scopeQuery(useScope());
  const names = useNames();
  const refusal = useRefusal('devices:write');
  const [isOpen, { open, close }] = useDisclosure(false);
  const change = (next: Partial<typeof search>) =>
    void navigate({ search: (previous) => ({ ...previous, page: undefined, ...next }), replace: true });
  const searchFor = useDebouncedCallback((q: string) => change({ q: q.trim() === '' ? undefined : q }), 300);
  const groups = useQuery({
    ...apiQuery('GET /groups', { query: { ...scope, search: search.q, page: String(search.page ?? 1) } }),
    // Dynamic groups change by themselves.
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
  const newGroup = (
    <Action refusal={refusal} leftSection={<IconPlus size={14} aria-hidden />} onClick={open}>
      New group
    </Action>
  );
  return (
    <Page title="Groups" description="Devices that belong together." actions={newGroup}>
      <Group>
        <TextInput
          w={240}
          placeholder="Search names"
          aria-label="Search groups"
          leftSection={<IconSearch size={14} aria-hidden />}
          defaultValue={search.q ?? ''}
          onChange={(event) => searchFor(event.currentTarget.value)}
        />
      </Group>
      <Loaded query={groups} what="Reading groups">
        {({ data, pagination }) =>
          data.length === 0 ? (
            search.q === undefined ? (
              <Empty title="No groups yet" action={newGroup}>
                A group holds devices that you choose, or follows a filter: then devices join and leave by
                themselves.
              </Empty>
            ) : (
              <Empty title="No group has this in its name">Search for something else.</Empty>
            )
          ) : (
            <PagedTable
              label="Groups"
              rows={data}
              keyOf={({ id }) => id}
              page={pagination}
              onPage={(page) => change({ page })}
              columns={[
                {
                  header: 'Name',
                  isName: true,
                  cell: ({ id, name, description }) => (
                    <NameCell
                      name={name}
                      description={description}
                      to="/groups/$groupId"
                      params={{ groupId: id }}
                    />
                  ),
                },
                { header: 'Kind', width: 150, cell: ({ type }) => <GroupKind type={type} /> },
                { header: 'Organization', cell: ({ orgId }) => names.organization(orgId) },
                {
                  header: 'Site',
                  cell: ({ siteId }) => (siteId === null ? '–' : names.site(siteId)),
                },
                {
                  header: 'Devices',
                  align: 'right',
                  width: 90,
                  cell: ({ deviceCount }) => formatCount(deviceCount),
                },
                { header: 'Changed', width: 110, cell: ({ updatedAt }) => <When at={updatedAt} /> },
              ]}
            />
          )
        }
      </Loaded>
      {isOpen && <GroupDialog opened onClose={close} />}
    </Page>
  );
}

export function GroupKind({ type }: { type: 'static' | 'dynamic' }) {
  return type === 'dynamic' ? (
    <StateBadge tone="info" icon={IconFilter} label="By a filter" />
  ) : (
    <StateBadge tone="neutral" icon={IconHandFinger} label="By hand" />
  );
}
