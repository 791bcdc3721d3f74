import { getRouteApi } from '@tanstack/react-router';

const signedIn = getRouteApi('/signed-in');

export interface Scope {
  orgId: string | undefined;
  siteId: string | undefined;
}

/** The organization and the site that the person has chosen in the header. */
export function useScope(): Scope {
  const { org, site } = signedIn.useSearch();
  return { orgId: org, siteId: site };
}

/** The scope as the fields of a query; what is not chosen is left out. */
export const scopeQuery = ({ orgId, siteId }: Scope): { orgId?: string; siteId?: string } => ({
  ...(orgId === undefined ? {} : { orgId }),
  ...(siteId === undefined ? {} : { siteId }),
});
