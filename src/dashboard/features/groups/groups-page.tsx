import { useDisclosure, useDebouncedValue } from '@mantine/hooks';
import { IconFilter, IconHandFinger, IconPlus } from '@tabler/icons-react';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { useList, apiQuery, useApiChange, type Group } from '../../api/index.ts';
import { useNames, choicesOf, useFirstOrganization, useOrganizations, useSites } from '../../directory.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  formatCount,
  ListPage,
  NameCell,
  StateBadge,
  useAddress,
  When,
  FormDialog,
  useForm,
} from '../../ui/index.ts';
import { MultiSelect, SegmentedControl, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

const route = getRouteApi('/signed-in/groups');
/** Dynamic groups change by themselves. */
const REFRESH_MS = 15_000;

/** Devices that belong together: chosen by hand, or found by a filter. */
export function GroupsPage() {
  const address = useAddress(route.useSearch());
  const { q, page = 1 } = address.search;
  const scope = scopeQuery(useScope());
  const names = useNames();
  const refusal = useRefusal('devices:write');
  const [isOpen, { open, close }] = useDisclosure(false);
  const groups = useList('GET /groups', { query: { ...scope, search: q, page: String(page) } }, REFRESH_MS);
  const newGroup = (
    <Action icon={IconPlus} refusal={refusal} onClick={open}>
      New group
    </Action>
  );
  return (
    <ListPage
      title="Groups"
      description="Devices that belong together."
      actions={newGroup}
      query={groups}
      noun="groups"
      keyOf={({ id }) => id}
      address={address}
      facets={[{ kind: 'text', name: 'q', label: 'Search groups', placeholder: 'Search names' }]}
      empty={{
        title: 'No groups yet',
        text: 'A group holds devices that you choose, or follows a filter: then devices join and leave by themselves.',
        action: newGroup,
      }}
      noneFound={{ title: 'No group has this in its name', text: 'Search for something else.' }}
      columns={[
        {
          header: 'Name',
          isName: true,
          cell: ({ id, name, description }) => (
            <NameCell name={name} description={description} to="/groups/$groupId" params={{ groupId: id }} />
          ),
        },
        { header: 'Kind', width: 150, cell: ({ type }) => <GroupKind type={type} /> },
        { header: 'Organization', cell: ({ orgId }) => names.organization(orgId) },
        { header: 'Site', cell: ({ siteId }) => (siteId === null ? '–' : names.site(siteId)) },
        { header: 'Devices', align: 'right', width: 90, cell: ({ deviceCount }) => formatCount(deviceCount) },
        { header: 'Changed', width: 110, cell: ({ updatedAt }) => <When at={updatedAt} /> },
      ]}
    >
      {isOpen && <GroupDialog onClose={close} />}
    </ListPage>
  );
}

export function GroupKind({ type }: { type: 'static' | 'dynamic' }) {
  return type === 'dynamic' ? (
    <StateBadge tone="info" icon={IconFilter} label="By a filter" />
  ) : (
    <StateBadge tone="neutral" icon={IconHandFinger} label="By hand" />
  );
}

const REFRESHES = [
  'GET /groups',
  'GET /groups/{id}',
  'GET /groups/{id}/devices',
  'GET /groups/{id}/changes',
] as const;

/** Creates a group, or changes the one that is given. */
export function GroupDialog({ group, onClose }: { group?: Group; onClose: () => void }) {
  const open = useNavigate();
  const organizations = useOrganizations();
  const first = useFirstOrganization();
  const form = useForm({
    name: group?.name ?? '',
    description: group?.description ?? null,
    type: group?.type ?? ('static' as const),
    filterId: group?.filterId ?? null,
    siteId: group?.siteId ?? null,
    orgId: group?.orgId,
  });
  const { orgId = first, filterId, ...body } = form.values;
  const sites = useSites(orgId ?? '');
  const mayReadFilters = useRefusal('filters:read');
  const filters = useQuery({ ...apiQuery('GET /filters'), enabled: mayReadFilters === undefined });
  const offered = (filters.data?.data ?? []).filter((filter) => filter.orgId === orgId);
  const create = useApiChange('POST /groups', { refreshes: REFRESHES });
  const change = useApiChange('PATCH /groups/{id}', { refreshes: REFRESHES });
  const submit = async () => {
    const content = {
      ...body,
      description: body.description?.trim() ?? null,
      ...(body.type === 'dynamic' ? { filterId } : {}),
    };
    if (group !== undefined) {
      await change.mutateAsync({ params: { id: group.id }, body: content });
      return;
    }
    const made = await create.mutateAsync({ body: { ...content, orgId: orgId ?? '' } });
    await open({ to: '/groups/$groupId', params: { groupId: made.id } });
  };
  return (
    <FormDialog
      title={group === undefined ? 'New group' : `Change ${group.name}`}
      onClose={onClose}
      submit={submit}
      submitLabel={group === undefined ? 'Create group' : 'Save'}
      form={form}
      fields={[
        { name: 'name', label: 'Name', required: true, maxLength: 255 },
        group === undefined &&
          organizations.length > 1 && {
            name: 'orgId',
            kind: 'choice',
            label: 'Organization',
            required: true,
            isSearchable: true,
            options: choicesOf(organizations),
            shown: orgId,
            empty: undefined,
            resets: { filterId: null, siteId: null },
          },
        {
          name: 'type',
          control: ({ value, onChange }) => (
            <SegmentedControl
              aria-label="Kind of group"
              data={[
                { value: 'static', label: 'Chosen by hand' },
                { value: 'dynamic', label: 'Found by a filter' },
              ]}
              value={value}
              onChange={(next) => onChange(next === 'dynamic' ? 'dynamic' : 'static')}
            />
          ),
        },
        body.type === 'dynamic'
          ? {
              name: 'filterId',
              kind: 'choice',
              label: 'Filter',
              description: 'A device that comes to match joins by itself, and leaves when it no longer does.',
              required: true,
              isSearchable: true,
              disabled: orgId === undefined || mayReadFilters !== undefined,
              placeholder: orgId === undefined ? 'Choose the organization first' : 'Choose a saved filter',
              nothingFound: 'This organization has no such filter.',
              options: choicesOf(offered),
              empty: null,
              refusal: mayReadFilters,
            }
          : {
              name: 'filterId',
              control: () => (
                <Text size="xs">
                  Devices are added on the page of the group, and stay until they are removed there.
                </Text>
              ),
            },
        {
          name: 'siteId',
          kind: 'choice',
          label: 'Site',
          description: 'Where the group is filed. Its devices may be at any site.',
          options: choicesOf(sites),
          empty: null,
        },
        { name: 'description', kind: 'area', label: 'Description', maxLength: 1000, empty: null },
      ]}
    />
  );
}

/** Devices of the organization, searched on the server, for a static group. */
export function AddDevicesDialog({
  groupId,
  orgId,
  onClose,
}: {
  groupId: string;
  orgId: string;
  onClose: () => void;
}) {
  const [chosen, setChosen] = useState<readonly { value: string; label: string }[]>([]);
  const [text, setText] = useState('');
  const [search] = useDebouncedValue(text.trim(), 250);
  const devices = useList('GET /devices', {
    query: { orgId, limit: '30', search: search === '' ? undefined : search },
  });
  const add = useApiChange('POST /groups/{id}/devices', { refreshes: REFRESHES });
  const found = (devices.data?.data ?? []).map(({ id, hostname, displayName }) => ({
    value: id,
    label: displayName ?? hostname,
  }));
  const data = [...chosen, ...found.filter(({ value }) => !chosen.some((each) => each.value === value))];
  return (
    <FormDialog
      title="Add devices"
      onClose={onClose}
      submit={() =>
        add.mutateAsync({ params: { id: groupId }, body: { deviceIds: chosen.map(({ value }) => value) } })
      }
      submitLabel="Add"
    >
      {(faults) => (
        <MultiSelect
          label="Devices"
          description="Those that are in the group already stay in it."
          required
          searchable
          data-autofocus
          data={data}
          // The server has searched; what was chosen stays.
          filter={({ options }) => options}
          searchValue={text}
          onSearchChange={setText}
          value={chosen.map(({ value }) => value)}
          onChange={(ids) => setChosen(data.filter(({ value }) => ids.includes(value)))}
          nothingFoundMessage={devices.isFetching ? 'Searching …' : 'No device has this name.'}
          error={faults['deviceIds']}
        />
      )}
    </FormDialog>
  );
}
