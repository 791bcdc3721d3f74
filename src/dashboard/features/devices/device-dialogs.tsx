import { Button, Group, Stack, type MantineColor, Select, Text, TextInput, TagsInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useState, type ReactNode, type SyntheticEvent } from 'react';
import { asError, Failure, useNow } from '../../ui/index.ts';
import { useApiChange, type Device } from '../../api/index.ts';
import { useNames, useOrganizations, useSites } from '../../directory.ts';
import { useMe } from '../../session.ts';
import {
  isMaintenanceEnd,
  MAINTENANCE_ENDS,
  maintenanceEndsAt,
  type MaintenanceEnd,
} from './maintenance-end.ts';

/** The form within a dialog: it closes when its action has worked, and says why if it has not. */
export function DialogForm({
  confirm,
  color,
  isReady = true,
  run,
  onClose,
  children,
}: {
  /** The verb on the button. */
  confirm: string;
  color?: MantineColor;
  isReady?: boolean;
  run: () => Promise<unknown>;
  onClose: () => void;
  children: ReactNode;
}) {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<Error>();
  const submit = async (event: SyntheticEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      await run();
      onClose();
    } catch (thrown) {
      setError(asError(thrown));
    } finally {
      setBusy(false);
    }
  };
  return (
    <form onSubmit={(event) => void submit(event)}>
      <Stack>
        {children}
        {error !== undefined && <Failure error={error} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button
            type="submit"
            loading={isBusy}
            disabled={!isReady}
            {...(color === undefined ? {} : { color })}
          >
            {confirm}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

const CHOICES = Object.entries(MAINTENANCE_ENDS).map(([value, label]) => ({ value, label }));

/** Asks until when maintenance lasts. */
export function MaintenanceForm({
  run,
  onClose,
}: {
  /** `until` is null if it has to be ended by hand. */
  run: (until: string | null) => Promise<unknown>;
  onClose: () => void;
}) {
  const [end, setEnd] = useState<MaintenanceEnd>('hours');
  const [time, setTime] = useState('');
  const isValid = maintenanceEndsAt(end, time, useNow()) !== undefined;
  return (
    <DialogForm
      confirm="Start maintenance"
      isReady={isValid}
      onClose={onClose}
      run={() => run(maintenanceEndsAt(end, time, Date.now()) ?? null)}
    >
      <Text size="sm">
        A device in maintenance stays connected and can be worked on. It raises no alerts while it is away.
      </Text>
      <Select
        label="How long"
        data={CHOICES}
        value={end}
        allowDeselect={false}
        onChange={(value) => {
          if (isMaintenanceEnd(value)) setEnd(value);
        }}
        data-autofocus
      />
      {end === 'time' && (
        <TextInput
          type="datetime-local"
          label="Ends at"
          description="In the time zone of this computer; within a year."
          value={time}
          onChange={(event) => setTime(event.currentTarget.value)}
          error={time !== '' && !isValid ? 'This time has passed.' : undefined}
          required
        />
      )}
    </DialogForm>
  );
}

/** The queries of the page of a device to fetch again after a change. */
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
