import { Select } from '@mantine/core';
import { useOrganizations } from '../../../directory/index.ts';
import { useScope } from '../../../routing/index.ts';
import { useMe } from '../../../session/index.ts';

/** The organization that a new object begins with: the chosen one, the person's own, or the only one. */
export function useFirstOrganization(): string | undefined {
  const me = useMe();
  const { orgId } = useScope();
  const organizations = useOrganizations();
  return orgId ?? me.orgId ?? (organizations.length === 1 ? organizations[0]?.id : undefined);
}

export function OrganizationSelect({
  value,
  onChange,
  error,
}: {
  value: string | undefined;
  onChange: (id: string | undefined) => void;
  error?: string | undefined;
}) {
  const me = useMe();
  const organizations = useOrganizations();
  if (me.scope === 'organization') return null;
  return (
    <Select
      label="Organization"
      required
      searchable
      data={organizations.map(({ id, name }) => ({ value: id, label: name }))}
      value={value ?? null}
      onChange={(next) => onChange(next ?? undefined)}
      error={error}
    />
  );
}
