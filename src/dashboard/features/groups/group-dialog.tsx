import { SegmentedControl, Select, Text, Textarea, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery, useApiChange, type Group } from '../../api/index.ts';
import { useOrganizations, useSites } from '../../directory/index.ts';
import { useScope } from '../../routing/index.ts';
import { useRefusal } from '../../session/index.ts';
import { FormDialog } from '../../ui/index.ts';

const REFRESHES = [
  'GET /groups',
  'GET /groups/{id}',
  'GET /groups/{id}/devices',
  'GET /groups/{id}/changes',
] as const;

/** Makes a group, or changes the one that is given. */
export function GroupDialog({
  group,
  opened,
  onClose,
}: {
  group?: Group;
  opened: boolean;
  onClose: () => void;
}) {
  const open = useNavigate();
  const scope = useScope();
  const organizations = useOrganizations();
  const only = organizations.length === 1 ? organizations[0]?.id : undefined;
  const [chosenOrg, setChosenOrg] = useState<string>();
  const orgId = group?.orgId ?? chosenOrg ?? scope.orgId ?? only;
  const sites = useSites(orgId ?? '');
  const [name, setName] = useState(group?.name ?? '');
  const [description, setDescription] = useState(group?.description ?? '');
  const [type, setType] = useState<Group['type']>(group?.type ?? 'static');
  const [filterId, setFilterId] = useState(group?.filterId ?? null);
  const [siteId, setSiteId] = useState(group?.siteId ?? null);
  const mayReadFilters = useRefusal('filters:read');
  const filters = useQuery({ ...apiQuery('GET /filters'), enabled: opened && mayReadFilters === undefined });
  const offered = (filters.data?.data ?? []).filter((filter) => filter.orgId === orgId);
  const create = useApiChange('POST /groups', { refreshes: REFRESHES });
  const change = useApiChange('PATCH /groups/{id}', { refreshes: REFRESHES });
  const submit = async () => {
    const body = {
      name,
      description: description.trim() === '' ? null : description.trim(),
      type,
      siteId,
      ...(type === 'dynamic' ? { filterId } : {}),
    };
    if (group !== undefined) {
      await change.mutateAsync({ params: { id: group.id }, body });
      return;
    }
    const made = await create.mutateAsync({ body: { ...body, orgId: orgId ?? '' } });
    await open({ to: '/groups/$groupId', params: { groupId: made.id } });
  };
  return (
    <FormDialog
      title={group === undefined ? 'New group' : `Change ${group.name}`}
      opened={opened}
      onClose={onClose}
      submit={submit}
      submitLabel={group === undefined ? 'Create group' : 'Save'}
    >
      {(faults) => (
        <>
          <TextInput
            label="Name"
            required
            maxLength={255}
            data-autofocus
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            error={faults['name']}
          />
          {group === undefined && organizations.length > 1 && (
            <Select
              label="Organization"
              required
              searchable
              allowDeselect={false}
              data={organizations.map((each) => ({ value: each.id, label: each.name }))}
              value={orgId ?? null}
              onChange={(next) => {
                setChosenOrg(next ?? undefined);
                setFilterId(null);
                setSiteId(null);
              }}
              error={faults['orgId']}
            />
          )}
          <SegmentedControl
            aria-label="Kind of group"
            data={[
              { value: 'static', label: 'Chosen by hand' },
              { value: 'dynamic', label: 'Found by a filter' },
            ]}
            value={type}
            onChange={(next) => setType(next === 'dynamic' ? 'dynamic' : 'static')}
          />
          {type === 'dynamic' ? (
            <Select
              label="Filter"
              description="A device that comes to match joins by itself, and leaves when it no longer does."
              required
              searchable
              allowDeselect={false}
              disabled={orgId === undefined || mayReadFilters !== undefined}
              placeholder={orgId === undefined ? 'Choose the organization first' : 'Choose a saved filter'}
              nothingFoundMessage="This organization has no such filter."
              data={offered.map((filter) => ({ value: filter.id, label: filter.name }))}
              value={filterId}
              onChange={setFilterId}
              error={faults['filterId'] ?? mayReadFilters}
            />
          ) : (
            <Text size="xs">
              Devices are added on the page of the group, and stay until somebody removes them.
            </Text>
          )}
          <Select
            label="Site"
            description="Where the group is filed. Its devices may be at any site."
            clearable
            clearButtonProps={{ 'aria-label': 'No site' }}
            data={sites.map((site) => ({ value: site.id, label: site.name }))}
            value={siteId}
            onChange={setSiteId}
            error={faults['siteId']}
          />
          <Textarea
            label="Description"
            maxLength={1000}
            value={description}
            onChange={(event) => setDescription(event.currentTarget.value)}
            error={faults['description']}
          />
        </>
      )}
    </FormDialog>
  );
}
