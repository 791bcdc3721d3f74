import { MultiSelect } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { apiQuery, useApiChange } from '../../api/index.ts';
import { FormDialog } from '../../ui/index.ts';

/** Devices of the organization, searched on the server, for a static group. */
export function AddDevicesDialog({
  groupId,
  orgId,
  opened,
  onClose,
}: {
  groupId: string;
  orgId: string;
  opened: boolean;
  onClose: () => void;
}) {
  const [chosen, setChosen] = useState<readonly { value: string; label: string }[]>([]);
  const [text, setText] = useState('');
  const [search] = useDebouncedValue(text.trim(), 250);
  const devices = useQuery({
    ...apiQuery('GET /devices', {
      query: { orgId, limit: '30', search: search === '' ? undefined : search },
    }),
    enabled: opened,
    placeholderData: keepPreviousData,
  });
  const add = useApiChange('POST /groups/{id}/devices', {
    refreshes: ['GET /groups', 'GET /groups/{id}', 'GET /groups/{id}/devices', 'GET /groups/{id}/changes'],
  });
  const found = (devices.data?.data ?? []).map(({ id, hostname, displayName }) => ({
    value: id,
    label: displayName ?? hostname,
  }));
  const data = [...chosen, ...found.filter(({ value }) => !chosen.some((each) => each.value === value))];
  return (
    <FormDialog
      title="Add devices"
      opened={opened}
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
