import { z } from 'zod';
import type { Pagination } from '../../../../src/dashboard/api/routes.ts';
import {
  type Answer,
  type Input,
  type InputParts,
  pathOf,
  type Route,
} from '../../../../src/dashboard/api/typed-route.ts';
import { MusterError, ownError } from '../error.ts';
import { originOf, type ServerOptions, tokenOf } from '../server-options.ts';
import { failureOf, objectOf } from './answer.ts';
import { isRepeatable, repeated, type RetryRules } from './retry.ts';

/** Every route of the server's `/api/v1`, typed by the route table. */

export interface ClientOptions extends ServerOptions, Partial<RetryRules> {
  /** How long a request may take, without the pauses before it is repeated. Default: 60 seconds. */
  timeoutMs?: number;
  /** The longest JSON that is read. Default: 64 MiB. */
  maxAnswerBytes?: number;
}

export interface RequestOptions {
  signal?: AbortSignal | undefined;
  /** Makes a `POST` that creates work safe to repeat: within a day, one key does its work once. */
  idempotencyKey?: string | undefined;
}

/** Served beside the API, at the root of the server. */
type AtTheRoot = 'GET /metrics' | 'GET /docs' | 'GET /docs/sockets';
type RouteWith<Shape> = { [R in Route]: Answer<R> extends Shape ? R : never }[Route];
/** Answers something else than JSON, such as a file. */
export type RawRoute = Exclude<RouteWith<null>, AtTheRoot>;
export type JsonRoute = Exclude<Route, RouteWith<null>>;
export type ListRoute = RouteWith<{ data: readonly unknown[]; pagination: Pagination }> & `GET ${string}`;
export type ItemOf<R extends ListRoute> = Answer<R> extends { data: readonly (infer Item)[] } ? Item : never;
/** The input may be left out where the route needs none. */
type Given<R extends Route> =
  object extends Input<R>
    ? [input?: Input<R>, options?: RequestOptions]
    : [input: Input<R>, options?: RequestOptions];

export interface Client {
  /** Calls a route and answers its JSON. Throws a `MusterError` for everything that is no success. */
  call<R extends JsonRoute>(route: R, ...given: Given<R>): Promise<Answer<R>>;
  /** The items of all pages of a list, read page by page as they are taken. */
  list<R extends ListRoute>(route: R, ...given: Given<R>): AsyncGenerator<ItemOf<R>, void>;
  /** Calls a route that answers with a file. Its body is not read, so that it may be of any length. */
  stream<R extends RawRoute>(route: R, ...given: Given<R>): Promise<Response>;
}

const DEFAULTS = {
  maxRetries: 4,
  maxWaitMs: 60_000,
  timeoutMs: 60_000,
  maxAnswerBytes: 64 * 1024 * 1024,
};

const Page = z.object({
  data: z.array(z.unknown()),
  pagination: z.object({
    page: z.int().positive(),
    limit: z.int().positive(),
    total: z.int().nonnegative(),
  }),
});
/** The largest page of most lists. The server lowers it where a list has smaller ones. */
const LIMIT = '100';

export function createClient(options: ClientOptions): Client {
  const rules = { ...DEFAULTS, ...options };
  const origin = originOf(options.server);

  /** Sends one request; `read` decides what is made of its answer, within the time of the request. */
  async function request<T>(
    route: Route,
    input: InputParts,
    { signal, idempotencyKey }: RequestOptions,
    read: (response: Response) => Promise<T>,
  ): Promise<T> {
    const method = route.slice(0, route.indexOf(' '));
    const url = urlOf(origin, route, input);
    const body = input.body === undefined ? undefined : JSON.stringify(input.body);
    const attempt = async () => {
      const headers = {
        accept: 'application/json',
        authorization: `Bearer ${await tokenOf(options.token)}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
      };
      return within(rules.timeoutMs, signal, async (either) => {
        const response = await fetch(url, {
          method,
          headers,
          signal: either,
          // The key is for this server, not for where it may point.
          redirect: 'manual',
          credentials: 'omit',
          ...(body === undefined ? {} : { body }),
        });
        if (!response.ok) throw await failureOf(response);
        return read(response);
      });
    };
    signal?.throwIfAborted();
    return isRepeatable(method, idempotencyKey) ? repeated(attempt, rules, signal) : attempt();
  }

  const readObject = (response: Response) => objectOf(response, rules.maxAnswerBytes);

  return {
    async call<R extends JsonRoute>(route: R, ...[input, more = {}]: Given<R>) {
      const answer = await request(route, partsOf(input), more, readObject);
      // The types are made from the schemas by which the server parses its own answers.
      return answer as Answer<R>;
    },
    async *list<R extends ListRoute>(route: R, ...[input, more = {}]: Given<R>) {
      const parts = partsOf(input);
      for (let page = 1; ; page++) {
        const query = { limit: LIMIT, ...parts.query, page };
        const answer = await request(route, { ...parts, query }, more, readObject);
        const parsed = Page.safeParse(answer);
        // A server that always answers the first page would never end.
        if (!parsed.success || parsed.data.pagination.page !== page) {
          throw ownError('UNEXPECTED_ANSWER', `The answer to ${route} is not page ${page} of a list.`);
        }
        const { data, pagination } = parsed.data;
        yield* data as ItemOf<R>[];
        if (data.length === 0 || page * pagination.limit >= pagination.total) return;
      }
    },
    stream: (route, ...[input, more = {}]) =>
      request(route, partsOf(input), more, (response) => Promise.resolve(response)),
  };
}

/** A new value for `idempotencyKey`: one for each deed, the same for each attempt at it. */
export { newIdempotencyKey } from '../../../../src/dashboard/api/typed-route.ts';

const partsOf = (input: object | undefined): InputParts => input ?? {};

function urlOf(origin: string, route: Route, input: InputParts): string {
  for (const [name, value] of Object.entries(input.params ?? {})) {
    // They would lead to another route.
    if (/^\.{0,2}$/.test(value)) throw new TypeError(`"${value}" cannot be the ${name} of ${route}.`);
  }
  return `${origin}${pathOf(route, input)}`;
}

/** Gives the work a time, and makes a `MusterError` of what the network does to it. */
async function within<T>(
  timeoutMs: number,
  signal: AbortSignal | undefined,
  work: (either: AbortSignal) => Promise<T>,
): Promise<T> {
  const patience = new AbortController();
  const timer = setTimeout(() => patience.abort(), timeoutMs);
  try {
    return await work(AbortSignal.any([patience.signal, ...(signal === undefined ? [] : [signal])]));
  } catch (error) {
    if (error instanceof MusterError) throw error;
    signal?.throwIfAborted();
    if (patience.signal.aborted) throw ownError('NO_ANSWER', 'The server has not answered in time.');
    throw ownError('UNREACHABLE', 'The server could not be reached, or ended the connection.', error);
  } finally {
    clearTimeout(timer);
  }
}
