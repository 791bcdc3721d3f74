import { MultiSelect } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { useQueries, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { apiQuery, useList } from '../../api/index.ts';
import { choicesOf, useSites } from '../../directory.ts';
import { useRefusal } from '../../session.ts';
import type { Field } from '../../ui/index.ts';
import { TARGETS, type TargetForm } from './target-form.ts';

/**
 * The fields that choose devices: all, or those of a filter, of groups, at sites, or single ones.
 * @param orgId  the organization whose devices they are; without one, all that the person may see
 */
export function useTargetFields(
  orgId: string | undefined,
  { target }: TargetForm,
): (Field<TargetForm> | false)[] {
  const sites = useSites(orgId);
  const groups = useList('GET /groups', { query: { orgId, limit: '100' } });
  const mayReadFilters = useRefusal('filters:read');
  const filters = useQuery({ ...apiQuery('GET /filters'), enabled: mayReadFilters === undefined });
  const offered = (filters.data?.data ?? []).filter((one) => orgId === undefined || one.orgId === orgId);
  return [
    { name: 'target', kind: 'choice', label: 'Devices', options: TARGETS },
    target === 'filter' && {
      name: 'filterId',
      fault: 'target.filterId',
      kind: 'choice',
      label: 'Filter',
      description: 'Of the devices of its organization, those that match at the time.',
      required: true,
      isSearchable: true,
      options: choicesOf(offered),
      nothingFound: 'There is no such filter.',
      empty: undefined,
      refusal: mayReadFilters,
    },
    target === 'groups' && {
      name: 'groupIds',
      fault: 'target.groupIds',
      kind: 'choices',
      label: 'Groups',
      required: true,
      options: choicesOf(groups.data?.data ?? []),
    },
    target === 'sites' && {
      name: 'siteIds',
      fault: 'target.siteIds',
      kind: 'choices',
      label: 'Sites',
      required: true,
      options: choicesOf(sites),
    },
    target === 'devices' && {
      name: 'deviceIds',
      fault: 'target.deviceIds',
      control: (field: DeviceField) => <DeviceChoice {...field} orgId={orgId} />,
    },
  ];
}

/** Devices whose names are read for a target that has some already. */
const NAMED_MAX = 30;
const DEVICES_MAX = 1000;

interface DeviceField {
  value: string[];
  onChange: (ids: string[]) => void;
  error: string | undefined;
}

/** Single devices, searched on the server. */
function DeviceChoice({ value, onChange, error, orgId }: DeviceField & { orgId: string | undefined }) {
  const [text, setText] = useState('');
  const [search] = useDebouncedValue(text.trim(), 250);
  const [known, setKnown] = useState<ReadonlyMap<string, string>>(new Map());
  const [first] = useState(() => value.slice(0, NAMED_MAX));
  const named = useQueries({
    queries: first.map((id) => apiQuery('GET /devices/{id}', { params: { id } })),
  });
  const devices = useList('GET /devices', {
    query: { orgId, limit: '30', search: search === '' ? undefined : search },
  });
  const found = (devices.data?.data ?? []).map(({ id, hostname, displayName }) => ({
    value: id,
    label: displayName ?? hostname,
  }));
  const names = new Map([
    ...named.flatMap(({ data }) =>
      data === undefined ? [] : [[data.id, data.displayName ?? data.hostname] as const],
    ),
    ...known,
  ]);
  const chosen = value.map((id) => ({ value: id, label: names.get(id) ?? `Device ${id.slice(-8)}` }));
  const data = [...chosen, ...found.filter((one) => !value.includes(one.value))];
  return (
    <MultiSelect
      label="Devices"
      required
      searchable
      maxValues={DEVICES_MAX}
      data={data}
      // The server has searched; what was chosen stays.
      filter={({ options }) => options}
      searchValue={text}
      onSearchChange={setText}
      value={value}
      onChange={(ids) => {
        setKnown(new Map([...known, ...data.map(({ value: id, label }) => [id, label] as const)]));
        onChange(ids);
      }}
      nothingFoundMessage={devices.isFetching ? 'Searching …' : 'No device has this name.'}
      error={error}
    />
  );
}
