import { Group, Tabs, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconMinus, IconPencil, IconPlus, IconTrash } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { apiQuery, useApiChange, useList, type Device, type Group as DeviceGroup } from '../../api/index.ts';
import { useNames } from '../../directory.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  ConfirmAction,
  DeviceStatusBadge,
  formatCounted,
  List,
  Loaded,
  Page,
  StateBadge,
  SYSTEM_NAMES,
  TextLink,
  useAddress,
  useSelection,
  When,
} from '../../ui/index.ts';
import { MEMBERSHIP_REASONS } from './membership-reasons.ts';
import { AddDevicesDialog, GroupDialog, GroupKind } from './groups-page.tsx';

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
              <Action variant="default" refusal={mayWrite} icon={IconPencil} onClick={changing.open}>
                Change
              </Action>
              <ConfirmAction
                variant="default"
                refusal={mayWrite}
                icon={IconTrash}
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
                icon={IconPlus}
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
          {isChanging && <GroupDialog group={data} onClose={changing.close} />}
          {isAdding && <AddDevicesDialog groupId={id} orgId={data.orgId} onClose={adding.close} />}
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
      <TextLink inherit to="/filters/$filterId" params={{ filterId }}>
        {filter.data?.name ?? 'a filter'}
      </TextLink>
    </span>
  );
}

function Members({ group }: { group: DeviceGroup }) {
  const address = useAddress(route.useSearch());
  const { q, page = 1 } = address.search;
  const names = useNames();
  const mayWrite = useRefusal('devices:write');
  const { chosen, clear, column } = useSelection(address);
  const devices = useList(
    'GET /groups/{id}/devices',
    { params: { id: group.id }, query: { page: String(page), search: q, sort: 'hostname', order: 'asc' } },
    REFRESH_MS,
  );
  const remove = useApiChange('POST /groups/{id}/devices/remove', {
    refreshes: ['GET /groups', 'GET /groups/{id}', 'GET /groups/{id}/devices', 'GET /groups/{id}/changes'],
  });
  const isDynamic = group.type === 'dynamic';
  const noneChosen = chosen.size === 0 ? 'Select devices in the list first.' : undefined;
  return (
    <List
      query={devices}
      noun="devices"
      label="Devices of the group"
      keyOf={({ id }) => id}
      address={address}
      facets={[
        { kind: 'text', name: 'q', label: 'Search the devices of the group', placeholder: 'Search names' },
      ]}
      tools={
        <ConfirmAction
          variant="default"
          refusal={mayWrite ?? (isDynamic ? BY_FILTER : noneChosen)}
          icon={IconMinus}
          title={`Remove ${formatCounted(chosen.size, 'device')} from ${group.name}`}
          question="The devices stay in Muster; they only leave this group."
          confirm="Remove"
          run={async () => {
            await remove.mutateAsync({ params: { id: group.id }, body: { deviceIds: [...chosen] } });
            clear();
          }}
        >
          Remove from the group
        </ConfirmAction>
      }
      empty={{
        title: 'No devices in this group',
        text: isDynamic
          ? 'A device joins by itself as soon as it matches the filter.'
          : 'Add devices to the group with the button above.',
      }}
      noneFound={{ title: 'No device has this name' }}
      columns={[
        !isDynamic && column<Device>(({ hostname }) => hostname),
        {
          header: 'Device',
          isName: true,
          cell: ({ id, hostname, displayName }) => <DeviceLink id={id} name={displayName ?? hostname} />,
        },
        { header: 'Status', cell: ({ status }) => <DeviceStatusBadge status={status} /> },
        { header: 'System', cell: ({ osType, osVersion }) => osVersion || SYSTEM_NAMES[osType] },
        { header: 'Site', cell: ({ siteId }) => names.site(siteId) },
        { header: 'Last seen', width: 120, cell: ({ lastSeenAt }) => <When at={lastSeenAt} /> },
      ]}
    />
  );
}

function Changes({ groupId }: { groupId: string }) {
  const address = useAddress(route.useSearch());
  const changes = useList(
    'GET /groups/{id}/changes',
    { params: { id: groupId }, query: { page: String(address.search.page ?? 1) } },
    REFRESH_MS,
  );
  return (
    <List
      query={changes}
      noun="changes"
      label="Devices that joined and left"
      keyOf={({ at, device, change }) => `${at} ${device.id} ${change}`}
      address={address}
      empty={{
        title: 'Nothing has changed yet',
        text: 'Each device that joins or leaves is listed here, with the reason.',
      }}
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
        { header: 'Why', cell: ({ reason }) => MEMBERSHIP_REASONS[reason] },
        { header: 'When', width: 120, cell: ({ at }) => <When at={at} /> },
      ]}
    />
  );
}

function DeviceLink({ id, name }: { id: string; name: string }) {
  return (
    <TextLink inherit to="/devices/$deviceId" params={{ deviceId: id }}>
      {name}
    </TextLink>
  );
}
