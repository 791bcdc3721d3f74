import { Anchor, Select } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { apiQuery } from '../../../api/index.ts';

/** The key of the repositories, which cannot be changed afterwards. */
export function KeySelect({
  orgId,
  value,
  onChange,
  error,
}: {
  orgId: string | undefined;
  value: string | undefined;
  onChange: (id: string | undefined) => void;
  error: string | undefined;
}) {
  const keys = useQuery({
    ...apiQuery('GET /backup/encryption/keys', { query: { orgId, limit: '100' } }),
    enabled: orgId !== undefined,
  });
  const isMissing = keys.data?.data.length === 0;
  return (
    <Select
      label="Encryption key"
      required
      description={
        isMissing ? (
          <>
            The organization has no key.{' '}
            <Anchor
              inherit
              renderRoot={(props) => <Link {...props} to="/backup/keys" search={{ org: orgId }} />}
            >
              Make one first
            </Anchor>
          </>
        ) : (
          'It cannot be changed afterwards, but it can be rotated.'
        )
      }
      data={(keys.data?.data ?? []).map(({ id, name }) => ({ value: id, label: name }))}
      value={value ?? null}
      onChange={(next) => onChange(next ?? undefined)}
      error={error ?? keys.error?.message}
    />
  );
}
