import { z } from 'zod';
import type { Api } from './routes.ts';

/** How a request is typed by its route and written as a path, for the dashboard and for `clients/typescript`. */

export type Route = keyof Api;
export type Answer<R extends Route> = Api[R]['response'];

/** Leaves may be `undefined`, so that a filter that is not set needs no special case. */
type Loose<T> = { [K in keyof T]: T[K] | undefined };
type Part<Name extends string, T> = object extends T ? { [K in Name]?: Loose<T> } : { [K in Name]: Loose<T> };
type Of<R extends Route, Name extends string> = Api[R] extends { [K in Name]: infer T }
  ? Part<Name, T>
  : object;
export type Input<R extends Route> = (Api[R] extends { params: infer P } ? { params: P } : object) &
  Of<R, 'query'> &
  (Api[R] extends { body: infer B } ? { body: B } : object);

/** The parts of every input, whichever of them the route has. */
export interface InputParts {
  params?: Record<string, string>;
  query?: Record<string, string | number | boolean | undefined>;
  body?: unknown;
}

/** The body of a refusal. */
export const ErrorBody = z.object({
  error: z.string(),
  code: z.string(),
  requestId: z.string().optional(),
  details: z.unknown().optional(),
});

/** The path and query of a request below /api/v1, each part encoded. */
export function pathOf(route: Route, { params = {}, query = {} }: InputParts = {}): string {
  const path = route.slice(route.indexOf(' ') + 1).replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = params[name];
    if (value === undefined) throw new Error(`The request "${route}" lacks its parameter "${name}".`);
    return encodeURIComponent(value);
  });
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== '') search.set(name, String(value));
  }
  return `/api/v1${path}${search.size > 0 ? `?${search.toString()}` : ''}`;
}

/** Makes a repeated click do its work once. Works without TLS too, which `crypto.randomUUID` needs. */
export const newIdempotencyKey = (): string =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
