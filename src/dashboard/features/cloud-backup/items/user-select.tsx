import { Select } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { apiQuery } from '../../../api/index.ts';

/** The users of whom a configuration has items. There may be thousands, so the server searches. */
export function UserSelect({
  configId,
  value,
  onChange,
}: {
  configId: string;
  value: string | undefined;
  onChange: (email: string | undefined) => void;
}) {
  const [typed, setTyped] = useState('');
  const [search] = useDebouncedValue(typed === value ? '' : typed, 300);
  const users = useQuery({
    ...apiQuery('GET /c2c/configs/{id}/users', {
      params: { id: configId },
      query: { search: search === '' ? undefined : search },
    }),
    placeholderData: keepPreviousData,
  });
  const known = (users.data?.data ?? []).map(({ userEmail }) => userEmail);
  return (
    <Select
      aria-label="User"
      placeholder="Any user"
      clearable
      searchable
      w={200}
      nothingFoundMessage={users.error?.message ?? 'No such user'}
      data={value === undefined || known.includes(value) ? known : [value, ...known]}
      value={value ?? null}
      onChange={(next) => onChange(next ?? undefined)}
      onSearchChange={setTyped}
    />
  );
}
