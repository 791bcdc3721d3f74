import { Select, Stack, TagsInput, Text, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useState } from 'react';
import { useApiChange, type Device } from '../../../api/index.ts';
import { useNames, useOrganizations, useSites } from '../../../directory/index.ts';
import { useMe } from '../../../session/index.ts';
import { DialogForm } from './dialog-form.tsx';

/** What the page of a device reads again after a change. */
export const REFRESHES = ['GET /devices/{id}', 'GET /devices'] as const;

interface FormProps {
  device: Device;
  onClose: () => void;
}

export function RenameForm({ device, onClose }: FormProps) {
  const [name, setName] = useState(device.displayName ?? '');
  const change = useApiChange('PATCH /devices/{id}', { refreshes: REFRESHES });
  return (
    <DialogForm
      confirm="Rename"
      onClose={onClose}
      run={() =>
        change.mutateAsync({ params: { id: device.id }, body: { displayName: name.trim() || null } })
      }
    >
      <TextInput
        label="Name"
        description={`Shown in place of the host name ${device.hostname}. Empty shows the host name again.`}
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        maxLength={255}
        data-autofocus
      />
    </DialogForm>
  );
}

export function TagsForm({ device, onClose }: FormProps) {
  const [tags, setTags] = useState(device.tags);
  const change = useApiChange('PATCH /devices/{id}', { refreshes: REFRESHES });
  return (
    <DialogForm
      confirm="Save tags"
      onClose={onClose}
      run={() => change.mutateAsync({ params: { id: device.id }, body: { tags } })}
    >
      <TagsInput
        label="Tags"
        description="Enter or a comma ends a tag. Filters and groups can select devices by their tags."
        value={tags}
        onChange={setTags}
        maxTags={50}
        data-autofocus
      />
    </DialogForm>
  );
}

/** Another site, also of another organization. Afterwards, the dialog lists what could not come along. */
export function MoveForm({ device, onClose }: FormProps) {
  const me = useMe();
  const names = useNames();
  const organizations = useOrganizations();
  const [orgId, setOrgId] = useState(device.orgId);
  const [siteId, setSiteId] = useState<string | null>(null);
  const sites = useSites(orgId).filter(({ id }) => id !== device.siteId);
  const move = useApiChange('POST /devices/{id}/move', { refreshes: REFRESHES });
  const run = async () => {
    if (siteId === null) return;
    const { groupsLeft, customFieldsDropped } = await move.mutateAsync({
      params: { id: device.id },
      body: { orgId, siteId },
    });
    const lost = [
      ...groupsLeft.map(({ name }) => `It left the group ${name}.`),
      ...customFieldsDropped.map((key) => `The value of the custom field ${key} was dropped.`),
    ];
    notifications.show({
      title: `${device.displayName ?? device.hostname} moved to ${names.site(siteId)}`,
      message: lost.length === 0 ? 'Everything about it moved along.' : lost.join(' '),
      autoClose: lost.length === 0 ? 5000 : false,
    });
  };
  const leaves = orgId !== device.orgId;
  return (
    <DialogForm confirm="Move" isReady={siteId !== null} onClose={onClose} run={run}>
      <Stack gap="xs">
        {me.scope !== 'organization' && (
          <Select
            label="Organization"
            data={organizations.map(({ id, name }) => ({ value: id, label: name }))}
            value={orgId}
            allowDeselect={false}
            searchable
            limit={200}
            onChange={(id) => {
              if (id === null) return;
              setOrgId(id);
              setSiteId(null);
            }}
          />
        )}
        <Select
          label="Site"
          placeholder={sites.length === 0 ? 'This organization has no other site' : 'Choose a site'}
          data={sites.map(({ id, name }) => ({ value: id, label: name }))}
          value={siteId}
          searchable
          limit={200}
          onChange={setSiteId}
          data-autofocus
        />
        {leaves && (
          <Text size="sm">
            The device leaves the groups of {names.organization(device.orgId)}, and values of custom fields
            that {names.organization(orgId)} does not define are dropped. Its connection ends for a moment.
          </Text>
        )}
      </Stack>
    </DialogForm>
  );
}
