import { Autocomplete, Group, MultiSelect, SegmentedControl, Select } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import type { DeviceSummary } from '../../../../protocol/index.ts';
import { apiQuery } from '../../../api/index.ts';
import { useScope } from '../../../routing/index.ts';
import { Failure } from '../../../ui/index.ts';

export interface FleetTarget {
  filter: string | undefined;
  devices: string[] | undefined;
  log: string | undefined;
  limit: number | undefined;
}

const LOGS = ['System', 'Application', 'Security', 'Setup', 'Kernel', 'Auth', 'Install'];
const LIMITS = [10, 50, 100, 500];
export const DEFAULT_LIMIT = 50;
const SHOWN = 50;

/** Which devices are asked, and for which log. */
export function TargetPicker({
  target,
  devices,
  onChange,
}: {
  target: FleetTarget;
  devices: readonly DeviceSummary[];
  onChange: (change: Partial<FleetTarget>) => void;
}) {
  const { orgId } = useScope();
  const filters = useQuery(apiQuery('GET /filters'));
  const [kind, setKind] = useState(target.devices === undefined ? 'filter' : 'devices');
  const offered = filters.data?.data.filter((filter) => orgId === undefined || filter.orgId === orgId) ?? [];
  const names = useMemo(
    () =>
      devices
        .map(({ id, displayName, hostname, status }) => ({
          value: id,
          label: `${displayName ?? hostname} (${status})`,
        }))
        .sort((a, b) => a.label.localeCompare(b.label)),
    [devices],
  );
  return (
    <Group gap={6} align="flex-start">
      <SegmentedControl
        aria-label="How devices are chosen"
        value={kind}
        onChange={(next) => {
          setKind(next);
          onChange({ filter: undefined, devices: undefined });
        }}
        data={[
          { value: 'filter', label: 'Saved filter' },
          { value: 'devices', label: 'Chosen devices' },
        ]}
      />
      {kind === 'filter' ? (
        <Select
          w={260}
          searchable
          clearable
          placeholder={filters.isPending ? 'Reading filters …' : 'Choose a saved filter'}
          aria-label="Saved filter"
          nothingFoundMessage="No saved filter has this name."
          data={offered.map(({ id, name }) => ({ value: id, label: name }))}
          value={target.filter ?? null}
          onChange={(filter) => onChange({ filter: filter ?? undefined, devices: undefined })}
        />
      ) : (
        <MultiSelect
          w={360}
          searchable
          clearable
          limit={SHOWN}
          maxValues={500}
          placeholder="Names of devices"
          aria-label="Devices"
          nothingFoundMessage="No device has this name."
          data={names}
          value={target.devices ?? []}
          onChange={(chosen) =>
            onChange({ devices: chosen.length === 0 ? undefined : chosen, filter: undefined })
          }
        />
      )}
      <Autocomplete
        size="xs"
        w={170}
        maxLength={255}
        placeholder="Name of the log"
        aria-label="Name of the log"
        data={LOGS}
        value={target.log ?? ''}
        onChange={(log) => onChange({ log: log || undefined })}
      />
      <Select
        w={170}
        aria-label="The most entries of each device"
        allowDeselect={false}
        data={LIMITS.map((limit) => ({ value: String(limit), label: `${limit} of each device` }))}
        value={String(target.limit ?? DEFAULT_LIMIT)}
        onChange={(limit) => onChange({ limit: limit === null ? undefined : Number(limit) })}
      />
      {filters.error !== null && <Failure error={filters.error} retry={() => void filters.refetch()} />}
    </Group>
  );
}
