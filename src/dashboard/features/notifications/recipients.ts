import { useQuery } from '@tanstack/react-query';
import { apiQuery, call, type NotificationChannel, type User } from '../../api/index.ts';
import { useOrganizations } from '../../directory.ts';
import { useRefusal } from '../../session.ts';
import { OF_PROVIDER } from '../owners/index.ts';

/** Whom the policies of an owner can tell. */

const STALE_MS = 60_000;

/** Where a policy of the owner can send, in the order of the names. `undefined` while it is read. */
export function useChannelsOf(owner: string): readonly NotificationChannel[] | undefined {
  const organizations = useOrganizations();
  const isOfProvider = owner === OF_PROVIDER;
  const limit = '100';
  const own = useQuery({
    ...apiQuery('GET /notification-channels', { query: { orgId: owner, limit } }),
    enabled: !isOfProvider && owner !== '',
  });
  const ofProvider = useQuery(
    apiQuery('GET /notification-channels', { query: { ofPartner: 'true', limit } }),
  );
  if (ofProvider.data === undefined || (!isOfProvider && own.data === undefined)) return undefined;
  const partnerId = organizations.find(({ id }) => id === owner)?.partnerId;
  const shared = ofProvider.data.data.filter(
    (channel) => partnerId === undefined || channel.partnerId === partnerId,
  );
  return [...(own.data?.data ?? []), ...shared];
}

const PEOPLE_PAGES_MAX = 20;

/** The people that a policy of the owner can tell; why there are none to choose from, if the person may not see them. */
export function usePeopleOf(owner: string): {
  people: readonly User[] | undefined;
  refusal: string | undefined;
} {
  const organizations = useOrganizations();
  const refusal = useRefusal('users:read');
  const { data } = useQuery({
    queryKey: ['notifications: people'],
    staleTime: STALE_MS,
    enabled: refusal === undefined,
    queryFn: async ({ signal }) => {
      const people: User[] = [];
      for (let page = 1; page <= PEOPLE_PAGES_MAX; page++) {
        const query = { page: String(page), limit: '100' };
        const read = await call('GET /users', { query }, { signal });
        people.push(...read.data);
        if (people.length >= read.pagination.total || read.data.length === 0) break;
      }
      return people;
    },
  });
  const partnerId = organizations.find(({ id }) => id === owner)?.partnerId;
  return { refusal, people: data?.filter((user) => reaches(user, owner, partnerId)) };
}

/** Whether the person reaches the owner: a member of the organization, or of its provider with access to it. */
function reaches(
  { status, scope, partnerId, orgId, orgAccess, orgIds }: User,
  owner: string,
  ownersPartner: string | undefined,
): boolean {
  // An invitation has no account yet.
  if (status === 'invited') return false;
  if (owner === OF_PROVIDER) return scope === 'partner';
  if (scope === 'organization') return orgId === owner;
  if (scope !== 'partner' || partnerId !== ownersPartner) return false;
  return orgAccess === 'all' || (orgAccess === 'selected' && orgIds.includes(owner));
}
