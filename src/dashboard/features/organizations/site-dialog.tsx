import { Select, TextInput } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useApiChange, type Site } from '../../api/index.ts';
import { DIRECTORY } from '../../directory/index.ts';
import { FormDialog, TIME_ZONES } from '../../ui/index.ts';

/** Creates a site of an organization, or changes the one that is given. */
export function SiteDialog({
  orgId,
  site,
  opened,
  onClose,
}: {
  orgId: string;
  site?: Site | undefined;
  opened: boolean;
  onClose: () => void;
}) {
  const [name, setName] = useState(site?.name ?? '');
  const [timezone, setTimezone] = useState<string>(
    site?.timezone ?? new Intl.DateTimeFormat().resolvedOptions().timeZone,
  );
  const queries = useQueryClient();
  const create = useApiChange('POST /orgs/sites');
  const change = useApiChange('PATCH /orgs/sites/{id}');
  const submit = async () => {
    if (site === undefined) await create.mutateAsync({ body: { orgId, name, timezone } });
    else await change.mutateAsync({ params: { id: site.id }, body: { name, timezone } });
    await queries.invalidateQueries({ queryKey: [DIRECTORY] });
  };
  return (
    <FormDialog
      title={site === undefined ? 'New site' : `Change ${site.name}`}
      opened={opened}
      onClose={onClose}
      submit={submit}
      submitLabel={site === undefined ? 'Create site' : 'Save'}
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
          <Select
            label="Time zone"
            description="Schedules and maintenance windows follow it."
            searchable
            allowDeselect={false}
            limit={100}
            data={TIME_ZONES.includes(timezone) ? TIME_ZONES : [timezone, ...TIME_ZONES]}
            value={timezone}
            onChange={(value) => setTimezone(value ?? timezone)}
            error={faults['timezone']}
          />
        </>
      )}
    </FormDialog>
  );
}
