import { NumberInput, Select, TextInput } from '@mantine/core';
import { useState } from 'react';
import { useApiChange } from '../../api/index.ts';
import { useOrganizations, useSites } from '../../directory/index.ts';
import { useScope } from '../../routing/index.ts';
import { useMe } from '../../session/index.ts';
import { FormDialog } from '../../ui/index.ts';

const DAY_MS = 86_400_000;
const LIVES = [
  { value: '1', label: 'One day' },
  { value: '7', label: 'One week' },
  { value: '30', label: '30 days' },
  { value: '', label: 'Until it is revoked' },
];

export function NewKeyDialog({
  opened,
  onClose,
  onMade,
}: {
  opened: boolean;
  onClose: () => void;
  onMade: (key: string) => void;
}) {
  const me = useMe();
  const scope = useScope();
  const organizations = useOrganizations();
  const [org, setOrg] = useState<string | null>(scope.orgId ?? me.orgId ?? null);
  const orgId = org ?? (organizations.length === 1 ? (organizations[0]?.id ?? '') : '');
  const sites = useSites(orgId);
  const [siteId, setSiteId] = useState<string | null>(scope.siteId ?? null);
  const [name, setName] = useState('');
  const [maxUsage, setMaxUsage] = useState<number | string>('');
  const [days, setDays] = useState<string | null>('7');
  const create = useApiChange('POST /enrollment-keys', { refreshes: ['GET /enrollment-keys'] });
  const submit = async () => {
    const { key } = await create.mutateAsync({
      body: {
        orgId,
        name,
        ...(siteId === null ? {} : { siteId }),
        ...(typeof maxUsage === 'number' ? { maxUsage } : {}),
        ...(days === null || days === ''
          ? {}
          : { expiresAt: new Date(Date.now() + Number(days) * DAY_MS).toISOString() }),
      },
    });
    onMade(key);
  };
  return (
    <FormDialog
      title="New enrollment key"
      opened={opened}
      onClose={onClose}
      submit={submit}
      submitLabel="Create key"
    >
      {(faults) => (
        <>
          {me.scope !== 'organization' && (
            <Select
              label="Organization"
              required
              searchable
              data={organizations.map(({ id, name: label }) => ({ value: id, label }))}
              value={orgId === '' ? null : orgId}
              onChange={(value) => {
                setOrg(value);
                setSiteId(null);
              }}
              error={faults['orgId']}
            />
          )}
          <Select
            label="Site"
            description="Where the devices belong. Without a site, they join the first one."
            clearable
            searchable
            data={sites.map(({ id, name: label }) => ({ value: id, label }))}
            value={siteId}
            onChange={setSiteId}
            error={faults['siteId']}
          />
          <TextInput
            label="Name"
            description="For whom or what it is, such as “Notebooks, spring”."
            required
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            error={faults['name']}
            data-autofocus
          />
          <NumberInput
            label="How many devices"
            description="Empty: as many as the organization may have."
            min={1}
            value={maxUsage}
            onChange={setMaxUsage}
            error={faults['maxUsage']}
          />
          <Select
            label="Valid for"
            data={LIVES}
            allowDeselect={false}
            value={days}
            onChange={setDays}
            error={faults['expiresAt']}
          />
        </>
      )}
    </FormDialog>
  );
}
