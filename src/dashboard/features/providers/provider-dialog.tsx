import { NumberInput, Select, TextInput } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useApiChange, type Partner } from '../../api/index.ts';
import { DIRECTORY } from '../../directory/index.ts';
import { FormDialog, formatWord, slugOf } from '../../ui/index.ts';

const STATUSES = ['active', 'pending', 'suspended', 'churned'] as const;
const TYPES: readonly { value: Partner['type']; label: string }[] = [
  { value: 'msp', label: 'Service provider, for customers' },
  { value: 'enterprise', label: 'Company, for its own parts' },
  { value: 'internal', label: 'Internal, for tests' },
];

/** Creates a provider, or changes the one that is given. */
export function ProviderDialog({
  provider,
  opened,
  onClose,
  onCreated,
}: {
  provider?: Partner;
  opened: boolean;
  onClose: () => void;
  onCreated?: (provider: Partner) => void;
}) {
  const [name, setName] = useState(provider?.name ?? '');
  const [slug, setSlug] = useState(provider?.slug);
  const [type, setType] = useState<Partner['type']>(provider?.type ?? 'msp');
  const [status, setStatus] = useState<Partner['status']>(provider?.status ?? 'active');
  const [maxOrganizations, setMaxOrganizations] = useState<number | string>(provider?.maxOrganizations ?? '');
  const [maxDevices, setMaxDevices] = useState<number | string>(provider?.maxDevices ?? '');
  const queries = useQueryClient();
  const create = useApiChange('POST /orgs/partners', { refreshes: ['GET /orgs/partners'] });
  const change = useApiChange('PATCH /orgs/partners/{id}', { refreshes: ['GET /orgs/partners'] });
  const submit = async () => {
    const fields = {
      name,
      type,
      maxOrganizations: numberOrNull(maxOrganizations),
      maxDevices: numberOrNull(maxDevices),
    };
    if (provider === undefined) {
      const created = await create.mutateAsync({ body: { ...fields, slug: slug ?? slugOf(name) } });
      onCreated?.(created);
    } else {
      await change.mutateAsync({ params: { id: provider.id }, body: { ...fields, status } });
    }
    await queries.invalidateQueries({ queryKey: [DIRECTORY] });
  };
  return (
    <FormDialog
      title={provider === undefined ? 'New provider' : `Change ${provider.name}`}
      opened={opened}
      onClose={onClose}
      submit={submit}
      submitLabel={provider === undefined ? 'Create provider' : 'Save'}
    >
      {(faults) => (
        <>
          <TextInput
            label="Name"
            required
            data-autofocus
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            error={faults['name']}
          />
          {provider === undefined ? (
            <TextInput
              label="Short name"
              description="For addresses: small letters, digits and hyphens."
              required
              value={slug ?? slugOf(name)}
              onChange={(event) => setSlug(event.currentTarget.value)}
              error={faults['slug']}
            />
          ) : (
            <Select
              label="Status"
              description="The people of a provider that is not active cannot sign in."
              data={STATUSES.map((value) => ({ value, label: formatWord(value) }))}
              allowDeselect={false}
              value={status}
              onChange={(value) => setStatus(STATUSES.find((known) => known === value) ?? status)}
              error={faults['status']}
            />
          )}
          <Select
            label="Kind"
            data={[...TYPES]}
            allowDeselect={false}
            value={type}
            onChange={(value) => setType(TYPES.find((known) => known.value === value)?.value ?? type)}
            error={faults['type']}
          />
          <NumberInput
            label="Organization limit"
            description="Empty: no limit."
            min={0}
            value={maxOrganizations}
            onChange={setMaxOrganizations}
            error={faults['maxOrganizations']}
          />
          <NumberInput
            label="Device limit"
            description="Of all its organizations together. Empty: no limit."
            min={0}
            value={maxDevices}
            onChange={setMaxDevices}
            error={faults['maxDevices']}
          />
        </>
      )}
    </FormDialog>
  );
}

const numberOrNull = (value: number | string) => (typeof value === 'number' ? value : null);
