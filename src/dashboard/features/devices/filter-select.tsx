import { Select, Tooltip } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { apiQuery } from '../../api/index.ts';
import { useNames } from '../../directory.ts';
import { useRefusal } from '../../session.ts';

/** A saved filter, by which the hub selects the devices of the table. */
export function FilterSelect({
  value,
  orgId,
  onChange,
}: {
  value: string | undefined;
  orgId: string | undefined;
  onChange: (id: string | undefined) => void;
}) {
  const refusal = useRefusal('filters:read');
  const names = useNames();
  const filters = useQuery({ ...apiQuery('GET /filters'), enabled: refusal === undefined });
  const offered = (filters.data?.data ?? []).filter(
    (filter) => orgId === undefined || filter.orgId === orgId || filter.id === value,
  );
  const isOneOrg = new Set(offered.map((filter) => filter.orgId)).size <= 1;
  const data = offered.map((filter) => ({
    value: filter.id,
    label: isOneOrg ? filter.name : `${filter.name} · ${names.organization(filter.orgId)}`,
  }));
  // A filter of the address that is gone, or not read yet, is shown all the same, so that it can be dropped.
  if (value !== undefined && !offered.some(({ id }) => id === value)) {
    data.push({ value, label: filters.isLoading ? 'A saved filter' : 'A filter that is gone' });
  }
  return (
    <Tooltip label={refusal} disabled={refusal === undefined} multiline maw={320}>
      <Select
        w={200}
        aria-label="Saved filter"
        placeholder={filters.data?.total === 0 ? 'No saved filters' : 'Any saved filter'}
        data={data}
        value={value ?? null}
        onChange={(id) => onChange(id ?? undefined)}
        disabled={refusal !== undefined}
        clearable
        searchable
        limit={200}
        nothingFoundMessage={data.length === 0 ? 'No filter has been saved yet' : 'No such filter'}
      />
    </Tooltip>
  );
}

/** The name of a filter, for sentences. */
export function useFilterName(id: string | undefined): string | undefined {
  const refusal = useRefusal('filters:read');
  const filters = useQuery({
    ...apiQuery('GET /filters'),
    enabled: refusal === undefined && id !== undefined,
  });
  return filters.data?.data.find((filter) => filter.id === id)?.name;
}
