import { Select } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { apiQuery, type SsoProvider } from '../../../api/index.ts';

/** The role of accounts that a first sign-in makes. */
export function DefaultRole({
  scope,
  value,
  onChange,
  error,
}: {
  scope: SsoProvider['ownerScope'];
  value: string | null;
  onChange: (id: string | null) => void;
  error: string | undefined;
}) {
  const roles = useQuery(apiQuery('GET /roles', { query: { limit: '100', scope } }));
  return (
    <Select
      label="Role of new accounts"
      required
      data={(roles.data?.data ?? []).map(({ id, name }) => ({ value: id, label: name }))}
      value={value}
      onChange={onChange}
      error={error ?? roles.error?.message}
    />
  );
}
