import { useQuery } from '@tanstack/react-query';
import { apiQuery, type Role } from '../../api/index.ts';

const NONE: readonly Role[] = [];

/** The roles that the person can see, for choices. */
export function useRoles(scope?: Role['scope']): readonly Role[] {
  const { data } = useQuery(apiQuery('GET /roles', { query: { limit: '100', scope } }));
  return data?.data ?? NONE;
}
