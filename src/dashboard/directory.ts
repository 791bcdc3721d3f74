import { queryOptions, useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { call, type Organization, type Partner, type Site } from './api/index.ts';
import { useScope } from './routing.ts';
import { useMe, useRefusal } from './session.ts';

/** The organizations and sites that the person may see, for names beside ids. They are read once and kept for a while. */

const PAGE = 100;
/** A provider with more organizations than this finds the others by the search. */
const PAGES_MAX = 20;
const STALE_MS = 60_000;

/** The first part of the keys of these queries; pages that change an organization or a site invalidate them. */
export const DIRECTORY = 'directory';

interface List<T> {
  data: T[];
  pagination: { total: number };
}

async function all<T>(read: (page: string) => Promise<List<T>>): Promise<T[]> {
  const rows: T[] = [];
  for (let page = 1; page <= PAGES_MAX; page++) {
    const { data, pagination } = await read(String(page));
    rows.push(...data);
    if (rows.length >= pagination.total || data.length === 0) break;
  }
  return rows;
}

const limit = String(PAGE);

const organizationsQuery = queryOptions({
  queryKey: [DIRECTORY, 'organizations'],
  queryFn: ({ signal }) =>
    all<Organization>((page) => call('GET /orgs/organizations', { query: { page, limit } }, { signal })),
  staleTime: STALE_MS,
});

/** A user of one organization may not list others. */
const ownOrganizationQuery = queryOptions({
  queryKey: ['directory', 'own organization'],
  queryFn: async ({ signal }) => (await call('GET /orgs/', {}, { signal })).data,
  staleTime: STALE_MS,
});

const providersQuery = queryOptions({
  queryKey: [DIRECTORY, 'providers'],
  queryFn: ({ signal }) =>
    all<Partner>((page) => call('GET /orgs/partners', { query: { page, limit } }, { signal })),
  staleTime: STALE_MS,
});

const sitesQuery = queryOptions({
  queryKey: [DIRECTORY, 'sites'],
  queryFn: ({ signal }) =>
    all<Site>((page) => call('GET /orgs/sites', { query: { page, limit } }, { signal })),
  staleTime: STALE_MS,
});

const NONE: never[] = [];

export function useOrganizations(): readonly Organization[] {
  const { scope } = useMe();
  return useQuery(scope === 'organization' ? ownOrganizationQuery : organizationsQuery).data ?? NONE;
}

/** All providers, for a system administrator; others see none. `undefined` while they are read. */
export function useProviders(): readonly Partner[] | undefined {
  const isSystem = useMe().scope === 'system';
  const { data } = useQuery({ ...providersQuery, enabled: isSystem });
  return isSystem ? data : NONE;
}

/** The sites of one organization, or of all. */
export function useSites(orgId?: string): readonly Site[] {
  const isAllowed = useRefusal('sites:read') === undefined;
  const { data = NONE } = useQuery({ ...sitesQuery, enabled: isAllowed });
  return useMemo(
    () => (orgId === undefined ? data : data.filter((site: Site) => site.orgId === orgId)),
    [data, orgId],
  );
}

/** Names by id; the id itself if the name is not known. */
export function useNames(): Record<'provider' | 'organization' | 'site', (id: string) => string> {
  const organizations = useOrganizations();
  const sites = useSites();
  const providers = useProviders() ?? NONE;
  return useMemo(() => {
    const names = new Map([...providers, ...organizations, ...sites].map(({ id, name }) => [id, name]));
    const nameOf = (id: string) => names.get(id) ?? id;
    return { provider: nameOf, organization: nameOf, site: nameOf };
  }, [providers, organizations, sites]);
}

/** The organization that a new object begins with: the chosen one, the person's own, or the only one. */
export function useFirstOrganization(): string | undefined {
  const me = useMe();
  const { orgId } = useScope();
  const organizations = useOrganizations();
  return orgId ?? me.orgId ?? (organizations.length === 1 ? organizations[0]?.id : undefined);
}

/** Things with names, for a field that chooses one of them. */
export const choicesOf = (
  things: readonly { id: string; name: string }[],
): { value: string; label: string }[] => things.map(({ id, name }) => ({ value: id, label: name }));

/** The field of a form that chooses an organization; `false` for a person who belongs to one. */
export function useOrganizationChoice() {
  const { scope } = useMe();
  const organizations = useOrganizations();
  const field = {
    kind: 'choice',
    label: 'Organization',
    required: true,
    isSearchable: true,
    options: choicesOf(organizations),
    empty: undefined,
  } as const;
  return scope !== 'organization' && field;
}
