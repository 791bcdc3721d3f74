import {
  QueryClient,
  queryOptions,
  useMutation,
  useQueryClient,
  type UseMutationResult,
} from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import { call } from './client.ts';
import { ApiError } from './request.ts';
import type { Answer, Input, Route } from './typed-route.ts';

/** Reads and changes of the API for components, on TanStack Query. */

export type ReadRoute = Extract<Route, `GET ${string}`>;
type Given<R extends Route> = object extends Input<R> ? [input?: Input<R>] : [input: Input<R>];

const RETRIES = 2;

export const createQueryClient = (): QueryClient =>
  new QueryClient({
    defaultOptions: {
      queries: {
        // A network without a way to the internet may well have a way to the server.
        networkMode: 'always',
        staleTime: 10_000,
        // What the server refuses, it refuses again.
        retry: (failures, error) =>
          failures < RETRIES && error instanceof ApiError && (error.status === 0 || error.status >= 500),
      },
      // A change that cannot be sent fails now. It is not kept and sent when nobody thinks of it any more.
      mutations: { networkMode: 'always' },
    },
  });

/** For `useQuery` and its relatives: `useQuery(apiQuery('GET /devices/{id}', { params: { id } }))`. */
export function apiQuery<R extends ReadRoute>(route: R, ...[input]: Given<R>) {
  // `Given` allows no input only where every part of the input may be left out.
  const given = input ?? ({} as Input<R>);
  return queryOptions<Answer<R>>({
    queryKey: [route, given],
    queryFn: ({ signal }) => call(route, given, { signal }),
  });
}

/**
 * A change by one route. Afterwards, what was read by the routes in `refreshes` is read again.
 * @example const rename = useApiChange('PATCH /devices/{id}', { refreshes: ['GET /devices/{id}'] });
 */
export function useApiChange<R extends Exclude<Route, ReadRoute>>(
  route: R,
  { refreshes = [] }: { refreshes?: readonly ReadRoute[] } = {},
): UseMutationResult<Answer<R>, Error, Input<R>> {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (input: Input<R>) => call(route, input),
    onSuccess: () => Promise.all(refreshes.map((read) => queries.invalidateQueries({ queryKey: [read] }))),
  });
}

/** Reads again what was read by these routes whenever `news` changes: what the hub says of it. */
export function useRefreshOn(news: string, refreshes: readonly ReadRoute[]): void {
  const queries = useQueryClient();
  const known = useRef(news);
  useEffect(() => {
    if (known.current === news) return;
    known.current = news;
    for (const read of refreshes) void queries.invalidateQueries({ queryKey: [read] });
    // The routes are the same each time, in a new array.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [news, queries]);
}
