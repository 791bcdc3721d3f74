import { useQuery } from '@tanstack/react-query';
import { apiQuery } from '../../api/index.ts';
import { choicesOf, useNames, useOrganizations } from '../../directory.ts';
import { useScope } from '../../routing.ts';
import { useMe } from '../../session.ts';

/** To whom a channel, a policy or an alert rule belongs: an organization, or its provider for all of its organizations. */

const STALE_MS = 60_000;

/** The choice of a provider for itself. */
export const OF_PROVIDER = 'provider';

/**
 * Whether the person sees what belongs to the provider, so that nothing listed means that there is nothing. `undefined`
 * while that is read.
 */
export function useSeesProvider(): boolean | undefined {
  const isOfPartner = useMe().scope === 'partner';
  const user = useQuery({ ...apiQuery('GET /users/me'), enabled: isOfPartner, staleTime: STALE_MS });
  if (!isOfPartner) return false;
  return user.data === undefined ? undefined : user.data.orgAccess === 'all';
}

/** The owner that something new begins with: the organization of the header, the own one, or the provider. */
export function useFirstOwner(): string {
  const { orgId: own } = useMe();
  const { orgId } = useScope();
  const organizations = useOrganizations();
  const seesProvider = useSeesProvider();
  const first = seesProvider === true ? OF_PROVIDER : organizations[0]?.id;
  return orgId ?? own ?? first ?? '';
}

/** The field that chooses the owner; `false` for a person who belongs to one organization. */
export function useOwnerChoice() {
  const { scope } = useMe();
  const seesProvider = useSeesProvider();
  const organizations = useOrganizations();
  const field = {
    name: 'owner',
    fault: 'orgId',
    kind: 'choice',
    label: 'For',
    required: true,
    isSearchable: true,
    options: [
      ...(seesProvider === true ? [{ value: OF_PROVIDER, label: 'All organizations' }] : []),
      ...choicesOf(organizations),
    ],
  } as const;
  return scope !== 'organization' && field;
}

/** As the API names an owner: an organization, or nothing for the provider. */
export const ownerBody = (owner: string): { orgId?: string } =>
  owner === OF_PROVIDER || owner === '' ? {} : { orgId: owner };

/** "Northway", "All organizations". */
export function useOwnerName(): (owned: { orgId: string | null; partnerId: string }) => string {
  const { scope } = useMe();
  const names = useNames();
  return ({ orgId, partnerId }) => {
    if (orgId !== null) return names.organization(orgId);
    return scope === 'system' ? names.provider(partnerId) : 'All organizations';
  };
}
