import { NumberInput, Select, TextInput } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useApiChange, type Organization } from '../../api/index.ts';
import { DIRECTORY } from '../../directory/index.ts';
import { FormDialog } from '../../ui/index.ts';
import { slugOf } from './slug.ts';

const STATUSES = ['active', 'trial', 'suspended', 'churned'] as const;

/** Makes an organization, or changes the one that is given. */
export function OrganizationDialog({
  organization,
  opened,
  onClose,
}: {
  organization?: Organization;
  opened: boolean;
  onClose: () => void;
}) {
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
      await create.mutateAsync({ body: { name, slug: slug ?? slugOf(name), status, maxDevices: limit } });
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
            data={STATUSES.map((value) => ({ value, label: value }))}
            allowDeselect={false}
            value={status}
            onChange={(value) => setStatus(STATUSES.find((known) => known === value) ?? status)}
            error={faults['status']}
          />
          <NumberInput
            label="Most devices"
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
