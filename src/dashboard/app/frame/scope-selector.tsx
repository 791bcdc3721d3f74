import { Select } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useOrganizations, useSites } from '../../directory/index.ts';
import { useScope } from '../../routing/index.ts';
import { useMe } from '../../session/index.ts';

/** What the person looks at: everything, one organization, or one site of it. It stays when they go to other pages. */
export function ScopeSelector() {
  const me = useMe();
  const { orgId, siteId } = useScope();
  const navigate = useNavigate();
  const organizations = useOrganizations();
  const sites = useSites(orgId ?? me.orgId);
  const choose = (scope: { org?: string | undefined; site?: string | undefined }) =>
    void navigate({
      to: '.',
      search: (previous) => ({ ...previous, org: undefined, site: undefined, ...scope }),
    });
  return (
    <>
      {me.scope !== 'organization' && (
        <Select
          w={190}
          aria-label="Organization"
          placeholder="All organizations"
          data={organizations.map(({ id, name }) => ({ value: id, label: name }))}
          value={orgId ?? null}
          onChange={(org) => choose({ org: org ?? undefined })}
          searchable
          clearable
          nothingFoundMessage="No such organization"
          limit={200}
        />
      )}
      {sites.length > 1 && (
        <Select
          w={150}
          visibleFrom="sm"
          aria-label="Site"
          placeholder="All sites"
          data={sites.map(({ id, name }) => ({ value: id, label: name }))}
          value={siteId ?? null}
          onChange={(site) => choose({ org: orgId, site: site ?? undefined })}
          searchable
          clearable
          limit={200}
        />
      )}
    </>
  );
}
