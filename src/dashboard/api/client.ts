import {
  keepPreviousData,
  QueryClient,
  queryOptions,
  useMutation,
  useQuery,
  useQueryClient,
  type UseMutationResult,
  type UseQueryResult,
} from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import { ApiError, raw, send } from './request.ts';
import { accessToken, renewToken } from './tokens.ts';
import type { Answer, Input, Route } from './typed-route.ts';

/** Asks the person for the second factor; returns false if they decline. */
type StepUp = () => Promise<boolean>;
/** Requests that were refused before the dialog was loaded wait for it. */
const early: ((ask: StepUp) => void)[] = [];
let stepUp: StepUp = async () => (await new Promise<StepUp>((there) => early.push(there)))();

/** Registers the dialog that asks for the second factor when a request needs it. */
export function answerStepUpWith(ask: StepUp): void {
  stepUp = ask;
  for (const there of early.splice(0)) there(ask);
}

/** Asks the person for the second factor, for what is no request of this API. False if they decline. */
export const askForSecondFactor = (): Promise<boolean> => stepUp();

interface CallOptions {
  signal?: AbortSignal | undefined;
  /** Sent as `Idempotency-Key`, so that a repeated click makes no second command. */
  idempotencyKey?: string;
  /** The body, for a route that takes a file, with its SHA-256 in hexadecimal digits. */
  file?: { bytes: Blob; sha256: string };
}

/**
 * Calls a route as the signed-in person. Renews an expired token, and asks for the second factor, once each. Throws an
 * `ApiError`.
 */
export function call<R extends Route>(
  route: R,
  input: Input<R>,
  options: CallOptions = {},
): Promise<Answer<R>> {
  return authorized(route, (token) => send(route, input, { ...sendOptions(options), token }));
}

/** As `call`, for files: returns their bytes and the name that the server gives them. */
export function download<R extends Route>(
  route: R,
  input: Input<R>,
  options: CallOptions = {},
): Promise<{ blob: Blob; name: string | undefined }> {
  return authorized(route, async (token) => {
    const response = await raw(route, input, { ...sendOptions(options), token });
    return { blob: await response.blob(), name: nameIn(response.headers.get('content-disposition')) };
  });
}

const sendOptions = ({ signal, idempotencyKey, file }: CallOptions) => ({
  signal,
  ...(file === undefined ? {} : { file }),
  ...(idempotencyKey === undefined ? {} : { headers: { 'idempotency-key': idempotencyKey } }),
});

async function authorized<T>(route: Route, attempt: (token: string) => Promise<T>): Promise<T> {
  const token = await accessToken();
  if (token === undefined) throw signedOut();
  try {
    return await attempt(token);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 401) {
      const renewed = await renewToken();
      if (renewed === undefined) throw signedOut();
      // The session holds, so an action was refused for what it said, such as a wrong code: once more would count twice.
      if (!route.startsWith('GET ')) throw error;
      return attempt(renewed);
    }
    if (error.code === 'MFA_REQUIRED' && (await stepUp())) {
      const raised = await accessToken();
      if (raised !== undefined) return attempt(raised);
    }
    throw error;
  }
}

const signedOut = () =>
  new ApiError(401, { error: 'Your session has ended. Sign in again.', code: 'SIGNED_OUT' });

function nameIn(disposition: string | null): string | undefined {
  const encoded = /filename\*=UTF-8''([^;]+)/i.exec(disposition ?? '')?.[1];
  if (encoded !== undefined) return decodeURIComponent(encoded);
  return /filename="([^"]+)"/i.exec(disposition ?? '')?.[1];
}

type ReadRoute = Extract<Route, `GET ${string}`>;
type Given<R extends Route> = object extends Input<R> ? [input?: Input<R>] : [input: Input<R>];

const RETRIES = 2;

export const createQueryClient = (): QueryClient =>
  new QueryClient({
    defaultOptions: {
      queries: {
        // A network without a way to the internet may well have a way to the server.
        networkMode: 'always',
        staleTime: 10_000,
        // Only failures that may pass are retried; a refusal would be repeated.
        retry: (failures, error) =>
          failures < RETRIES && error instanceof ApiError && (error.status === 0 || error.status >= 500),
      },
      // A change that cannot be sent fails now. It is not queued and sent later without the user.
      mutations: { networkMode: 'always' },
    },
  });

/** For `useQuery` and its relatives: `useQuery(apiQuery('GET /devices/{id}', { params: { id } }))`. */
export function apiQuery<R extends ReadRoute>(route: R, ...[input]: Given<R>) {
  // `Given` allows no input only if every part of the input may be left out.
  const given = input ?? ({} as Input<R>);
  return queryOptions<Answer<R>>({
    queryKey: [route, given],
    queryFn: ({ signal }) => call(route, given, { signal }),
  });
}

/**
 * A page of a list. The page before is shown until the next one has come.
 * @param everyMs  how often it is read again by itself, for lists that change while they are looked at
 */
export function useList<R extends ReadRoute>(
  route: R,
  input: Input<R>,
  everyMs?: number,
): UseQueryResult<Answer<R>> {
  return useQuery({
    queryKey: [route, input],
    queryFn: ({ signal }) => call(route, input, { signal }),
    placeholderData: keepPreviousData,
    refetchInterval: everyMs ?? false,
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
