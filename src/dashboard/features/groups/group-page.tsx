import { Anchor, Checkbox, Group, Tabs, Text, TextInput } from '@mantine/core';
import { useDebouncedCallback, useDisclosure } from '@mantine/hooks';
import { IconMinus, IconPencil, IconPlus, IconSearch, IconTrash } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery, useApiChange, type Group as DeviceGroup, type GroupChange } from '../../api/index.ts';
import { useNames } from '../../directory/index.ts';
import { useRefusal } from '../../session/index.ts';
import {
  Action,
  ConfirmAction,
  DeviceStatusBadge,
  Empty,
  formatCounted,
  Loaded,
  Page,
  PagedTable,
  StateBadge,
  SYSTEM_NAMES,
  When,
} from '../../ui/index.ts';
import { AddDevicesDialog } from './add-devices-dialog.tsx';
import { GroupDialog } from './group-dialog.tsx';
import { GroupKind } from './groups-page.tsx';

const route = getRouteApi('/signed-in/groups/$groupId');
const REFRESH_MS = 10_000;
const BY_FILTER = 'Its filter decides which devices are in this group.';

/** One group: its devices, and who joined and left. */
export function GroupPage() {
  const { groupId: id } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const open = useNavigate();
  const names = useNames();
  const [isChanging, changing] = useDisclosure(false);
  const [isAdding, adding] = useDisclosure(false);
  const mayWrite = useRefusal('devices:write');
  const remove = useApiChange('DELETE /groups/{id}', { refreshes: ['GET /groups'] });
  const group = useQuery({
    ...apiQuery('GET /groups/{id}', { params: { id } }),
    refetchInterval: REFRESH_MS,
  });
  return (
    <Loaded query={group} what="Reading the group">
      {(data) => (
        <Page
          title={data.name}
          description={
            <Group gap={8}>
              <GroupKind type={data.type} />
              <span>
                {names.organization(data.orgId)} · {formatCounted(data.deviceCount, 'device')}
                {data.filterId === null ? '' : ' ·'}
              </span>
              {data.filterId !== null && <FilterLink filterId={data.filterId} />}
            </Group>
          }
          actions={
            <>
              <Action
                variant="default"
                refusal={mayWrite}
                leftSection={<IconPencil size={14} aria-hidden />}
                onClick={changing.open}
              >
                Change
              </Action>
              <ConfirmAction
                variant="default"
                refusal={mayWrite}
                leftSection={<IconTrash size={14} aria-hidden />}
                title={`Delete ${data.name}`}
                question="The devices stay; only the group is deleted. This cannot be undone."
                confirm="Delete"
                run={async () => {
                  await remove.mutateAsync({ params: { id } });
                  await open({ to: '/groups' });
                }}
              >
                Delete
              </ConfirmAction>
              <Action
                refusal={mayWrite ?? (data.type === 'dynamic' ? BY_FILTER : undefined)}
                leftSection={<IconPlus size={14} aria-hidden />}
                onClick={adding.open}
              >
                Add devices
              </Action>
            </>
          }
        >
          {data.description !== null && <Text size="sm">{data.description}</Text>}
          <Tabs
            value={search.tab ?? 'devices'}
            keepMounted={false}
            onChange={(next) =>
              void navigate({
                search: ({ org, site }) => ({
                  org,
                  site,
                  ...(next === 'changes' ? { tab: 'changes' as const } : {}),
                }),
                replace: true,
              })
            }
          >
            <Tabs.List mb="sm" aria-label="Parts of the group">
              <Tabs.Tab value="devices">Devices</Tabs.Tab>
              <Tabs.Tab value="changes">Joined and left</Tabs.Tab>
            </Tabs.List>
            <Tabs.Panel value="devices">
              <Members group={data} />
            </Tabs.Panel>
            <Tabs.Panel value="changes">
              <Changes groupId={id} />
            </Tabs.Panel>
          </Tabs>
          {isChanging && <GroupDialog group={data} opened onClose={changing.close} />}
          {isAdding && <AddDevicesDialog groupId={id} orgId={data.orgId} opened onClose={adding.close} />}
        </Page>
      )}
    </Loaded>
  );
}

function FilterLink({ filterId }: { filterId: string }) {
  const mayRead = useRefusal('filters:read') === undefined;
  const filter = useQuery({
    ...apiQuery('GET /filters/{id}', { params: { id: filterId } }),
    enabled: mayRead,
  });
  return (
    <span>
      follows{' '}
      <Anchor
        inherit
        renderRoot={(props) => <Link {...props} to="/filters/$filterId" params={{ filterId }} />}
      >
        {filter.data?.name ?? 'a filter'}
      </Anchor>
    </span>
  );
}

function Members({ group }: { group: DeviceGroup }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const names = useNames();
  const mayWrite = useRefusal('devices:write');
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const change = (next: Partial<typeof search>) => {
    setChosen(new Set());
    void navigate({ search: (previous) => ({ ...previous, page: undefined, ...next }), replace: true });
  };
  const searchFor = useDebouncedCallback((q: string) => change({ q: q.trim() === '' ? undefined : q }), 300);
  const devices = useQuery({
    ...apiQuery('GET /groups/{id}/devices', {
      params: { id: group.id },
      query: { page: String(search.page ?? 1), search: search.q, sort: 'hostname', order: 'asc' },
    }),
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
  const remove = useApiChange('POST /groups/{id}/devices/remove', {
    refreshes: ['GET /groups', 'GET /groups/{id}', 'GET /groups/{id}/devices', 'GET /groups/{id}/changes'],
  });
  const toggle = (id: string) => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    setChosen(next);
  };
  const refusal =
    mayWrite ??
    (group.type === 'dynamic'
      ? BY_FILTER
      : chosen.size === 0
        ? 'Select devices in the list first.'
        : undefined);
  return (
    <>
      <Group mb="xs" gap="sm">
        <TextInput
          w={240}
          placeholder="Search names"
          aria-label="Search the devices of the group"
          leftSection={<IconSearch size={14} aria-hidden />}
          defaultValue={search.q ?? ''}
          onChange={(event) => searchFor(event.currentTarget.value)}
        />
        <ConfirmAction
          variant="default"
          refusal={refusal}
          leftSection={<IconMinus size={14} aria-hidden />}
          title={`Remove ${chosen.size === 1 ? '1 device' : `${chosen.size} devices`} from ${group.name}`}
          question="The devices stay in Muster; they only leave this group."
          confirm="Remove"
          run={async () => {
            await remove.mutateAsync({ params: { id: group.id }, body: { deviceIds: [...chosen] } });
            setChosen(new Set());
          }}
        >
          Remove from the group
        </ConfirmAction>
      </Group>
      <Loaded query={devices} what="Reading the devices">
        {({ data, pagination }) =>
          data.length === 0 ? (
            <Empty title={search.q === undefined ? 'No devices in this group' : 'No device has this name'}>
              {group.type === 'dynamic'
                ? 'A device joins by itself as soon as it matches the filter.'
                : 'Add devices to the group with the button above.'}
            </Empty>
          ) : (
            <PagedTable
              label="Devices of the group"
              rows={data}
              keyOf={({ id }) => id}
              page={pagination}
              onPage={(page) => change({ page })}
              columns={[
                ...(group.type === 'dynamic'
                  ? []
                  : [
                      {
                        header: 'Select',
                        width: 60,
                        cell: ({ id, hostname }: { id: string; hostname: string }) => (
                          <Checkbox
                            aria-label={`Select ${hostname}`}
                            checked={chosen.has(id)}
                            onChange={() => toggle(id)}
                          />
                        ),
                      },
                    ]),
                {
                  header: 'Device',
                  isName: true,
                  cell: ({ id, hostname, displayName }) => (
                    <DeviceLink id={id} name={displayName ?? hostname} />
                  ),
                },
                { header: 'Status', cell: ({ status }) => <DeviceStatusBadge status={status} /> },
                { header: 'System', cell: ({ osType, osVersion }) => osVersion || SYSTEM_NAMES[osType] },
                { header: 'Site', cell: ({ siteId }) => names.site(siteId) },
                {
                  header: 'Last seen',
                  width: 120,
                  cell: ({ lastSeenAt }) => (lastSeenAt === null ? 'Never' : <When at={lastSeenAt} />),
                },
              ]}
            />
          )
        }
      </Loaded>
    </>
  );
}

const REASONS: Record<GroupChange['reason'], string> = {
  manual: 'By hand',
  group_created: 'The group was created',
  filter_match: 'It came to match the filter',
  filter_unmatch: 'It no longer matches the filter',
  filter_changed: 'The filter was changed',
  device_moved: 'It was moved to another organization',
  device_decommissioned: 'It was decommissioned',
};

function Changes({ groupId }: { groupId: string }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const changes = useQuery({
    ...apiQuery('GET /groups/{id}/changes', {
      params: { id: groupId },
      query: { page: String(search.page ?? 1) },
    }),
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
  return (
    <Loaded query={changes} what="Reading the changes">
      {({ data, pagination }) =>
        data.length === 0 ? (
          <Empty title="Nothing has changed yet">
            Each device that joins or leaves is listed here, with the reason.
          </Empty>
        ) : (
          <PagedTable
            label="Devices that joined and left"
            rows={data}
            keyOf={({ at, device, change }) => `${at} ${device.id} ${change}`}
            page={pagination}
            onPage={(page) => void navigate({ search: (previous) => ({ ...previous, page }), replace: true })}
            columns={[
              {
                header: 'Device',
                isName: true,
                cell: ({ device }) => <DeviceLink id={device.id} name={device.hostname} />,
              },
              {
                header: 'Change',
                cell: ({ change }) => (
                  <StateBadge
                    tone={change === 'joined' ? 'good' : 'neutral'}
                    icon={change === 'joined' ? IconPlus : IconMinus}
                    label={change === 'joined' ? 'Joined' : 'Left'}
                  />
                ),
              },
              { header: 'Why', cell: ({ reason }) => REASONS[reason] },
              { header: 'When', width: 120, cell: ({ at }) => <When at={at} /> },
            ]}
          />
        )
      }
    </Loaded>
  );
}

function DeviceLink({ id, name }: { id: string; name: string }) {
  return (
    <Anchor
      inherit
      renderRoot={(props) => <Link {...props} to="/devices/$deviceId" params={{ deviceId: id }} />}
    >
      {name}
    </Anchor>
  );
}
