import { Checkbox, MultiSelect, Select, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { apiQuery } from '../../../api/index.ts';
import { deviceName, useDevices } from '../parts/device-names.tsx';
import type { PartProps } from './config-form.ts';

/** Which devices are backed up. Groups and filters are followed as they change. */
export function TargetFields({ form, set, faults }: PartProps) {
  const { orgId } = form;
  const devices = useDevices(orgId);
  const groups = useQuery(apiQuery('GET /groups', { query: { orgId, limit: '100' } }));
  const filters = useQuery(apiQuery('GET /filters'));
  return (
    <Stack gap="sm">
      <Text size="sm">Without any, backups of the configuration begin by hand only.</Text>
      <Checkbox
        label="Every device of the organization"
        checked={form.all}
        onChange={(event) => set({ all: event.currentTarget.checked })}
      />
      {!form.all && (
        <>
          <MultiSelect
            label="Devices"
            searchable
            limit={100}
            data={devices.map((device) => ({ value: device.id, label: deviceName(device) }))}
            value={form.deviceIds}
            onChange={(deviceIds) => set({ deviceIds })}
            error={faults['targets.deviceIds']}
          />
          <MultiSelect
            label="Groups"
            searchable
            data={(groups.data?.data ?? []).map(({ id, name }) => ({ value: id, label: name }))}
            value={form.groupIds}
            onChange={(groupIds) => set({ groupIds })}
            error={faults['targets.groupIds']}
          />
          <Select
            label="Devices that match a filter"
            searchable
            clearable
            data={(filters.data?.data ?? []).map(({ id, name }) => ({ value: id, label: name }))}
            value={form.filterId ?? null}
            onChange={(value) => set({ filterId: value ?? undefined })}
            error={faults['targets.filterId']}
          />
        </>
      )}
    </Stack>
  );
}
