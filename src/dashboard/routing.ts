import { createRootRoute, createRoute, retainSearchParams, getRouteApi } from '@tanstack/react-router';
import { z } from 'zod';

/** The routes under which every page hangs. The app gives them their components. */

declare module '@tanstack/react-router' {
  interface StaticDataRouteOption {
    /** The title of the page, also in the tab of the browser. */
    title?: string;
    /** Without this permission, or as another kind of account, the page says so in place of its content. */
    permission?:
      | string
      | { permission?: string; scopes?: readonly ('system' | 'partner' | 'organization')[] };
  }
}

export const rootRoute = createRootRoute();

/** Pages for people who are not signed in. */
export const publicRoute = createRoute({ getParentRoute: () => rootRoute, id: 'public' });

/** The scope of the pages: everything, one organization, or one of its sites. It is part of every address. */
const ScopeSearch = z.object({
  org: z.uuid().optional().catch(undefined),
  site: z.uuid().optional().catch(undefined),
});

/** Pages inside the frame, for people who are signed in. */
export const signedInRoute = createRoute({
  getParentRoute: () => rootRoute,
  id: 'signed-in',
  validateSearch: ScopeSearch,
  search: { middlewares: [retainSearchParams(['org', 'site'])] },
});

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
