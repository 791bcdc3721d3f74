import { NumberInput, Select, TextInput } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useApiChange, type Organization } from '../../api/index.ts';
import { DIRECTORY, useProviders } from '../../directory/index.ts';
import { useMe } from '../../session/index.ts';
import { FormDialog, formatWord, slugOf } from '../../ui/index.ts';

const STATUSES = ['active', 'trial', 'suspended', 'churned'] as const;

/** Creates an organization, or changes the one that is given. A system administrator chooses its provider. */
export function OrganizationDialog({
  organization,
  opened,
  onClose,
  onCreated,
}: {
  organization?: Organization;
  opened: boolean;
  onClose: () => void;
  onCreated?: (organization: Organization) => void;
}) {
  const me = useMe();
  const providers = useProviders() ?? [];
  const [chosen, setChosen] = useState<string | null>(null);
  const partnerId = chosen ?? (providers.length === 1 ? providers[0]?.id : undefined);
  const [name, setName] = useState(organization?.name ?? '');
  const [slug, setSlug] = useState(organization?.slug);
  const [status, setStatus] = useState<Organization['status']>(organization?.status ?? 'active');
  const [maxDevices, setMaxDevices] = useState<number | string>(organization?.maxDevices ?? '');
  const queries = useQueryClient();
  const refreshes = ['GET /orgs/organizations', 'GET /orgs/organizations/{id}'] as const;
  const create = useApiChange('POST /orgs/organizations', { refreshes });
  const change = useApiChange('PATCH /orgs/organizations/{id}', { refreshes });
  const submit = async () => {
    const limit = typeof maxDevices === 'number' ? maxDevices : null;
    if (organization === undefined) {
      const created = await create.mutateAsync({
        body: {
          name,
          slug: slug ?? slugOf(name),
          status,
          maxDevices: limit,
          ...(partnerId === undefined ? {} : { partnerId }),
        },
      });
      onCreated?.(created);
    } else {
      const { id } = organization;
      await change.mutateAsync({ params: { id }, body: { name, status, maxDevices: limit } });
    }
    await queries.invalidateQueries({ queryKey: [DIRECTORY] });
  };
  return (
    <FormDialog
      title={organization === undefined ? 'New organization' : `Change ${organization.name}`}
      opened={opened}
      onClose={onClose}
      submit={submit}
      submitLabel={organization === undefined ? 'Create organization' : 'Save'}
    >
      {(faults) => (
        <>
          {organization === undefined && me.scope === 'system' && (
            <Select
              label="Provider"
              description="Who looks after this customer."
              required
              searchable
              data={providers.map(({ id, name: label }) => ({ value: id, label }))}
              value={partnerId ?? null}
              onChange={setChosen}
              error={faults['partnerId']}
            />
          )}
          <TextInput
            label="Name"
            required
            data-autofocus
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            error={faults['name']}
          />
          {organization === undefined && (
            <TextInput
              label="Short name"
              description="For addresses: small letters, digits and hyphens."
              required
              value={slug ?? slugOf(name)}
              onChange={(event) => setSlug(event.currentTarget.value)}
              error={faults['slug']}
            />
          )}
          <Select
            label="Status"
            data={STATUSES.map((value) => ({ value, label: formatWord(value) }))}
            allowDeselect={false}
            value={status}
            onChange={(value) => setStatus(STATUSES.find((known) => known === value) ?? status)}
            error={faults['status']}
          />
          <NumberInput
            label="Device limit"
            description="Empty: no limit."
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
