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
  // A list that opens before it is read shows nothing, and closes when it comes.
  const isRead = keys.data !== undefined || keys.error !== null;
  return (
    <Select
      label="Encryption key"
      required
      disabled={!isRead}
      placeholder={
        isRead ? undefined : orgId === undefined ? 'First choose the organization' : 'Reading the keys …'
      }
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
