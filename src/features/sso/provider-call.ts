import type { z } from 'zod';
import type { GuardedFetch, GuardedRequest } from '../../platform/outbound/guarded-fetch.ts';
import { OutboundError } from '../../platform/outbound/outbound-error.ts';
import { SsoFailure } from './sso-failure.ts';

export type ProviderFetch = Pick<GuardedFetch, 'fetch' | 'assertPermitted'>;

/** The maximum size of a JSON document of an identity provider. Usual ones are below 40 KiB. */
const MAX_BYTES = 256 << 10;

/** Reasons for which no response was received. All other reasons are responses that cannot be used. */
const UNREACHED: ReadonlySet<string> = new Set(['url_refused', 'unreachable', 'insecure', 'timed_out']);

/**
 * Sends one request to an identity provider. Returns every response with a status below 500.
 * @param name  of the endpoint, for the log
 * @throws SsoFailure
 */
export async function callProvider(
  outbound: ProviderFetch,
  name: string,
  url: string,
  request: Omit<GuardedRequest, 'maxBytes'>,
): Promise<Response> {
  const response = await guarded(name, () => outbound.fetch(url, { ...request, maxBytes: MAX_BYTES }));
  if (response.status >= 500) {
    throw new SsoFailure('provider_unreachable', `the ${name} answered with status ${response.status}`);
  }
  return response;
}

/** Fetches a public JSON document of an identity provider. */
export async function getDocument<S extends z.ZodType>(
  outbound: ProviderFetch,
  name: string,
  url: string,
  { schema, accept = ['application/json'] }: { schema: S; accept?: readonly string[] },
): Promise<z.output<S>> {
  const response = await callProvider(outbound, name, url, { accept });
  assertOk(response, name);
  return readAnswer(response, name, schema);
}

export function assertOk({ ok, status }: Response, name: string): void {
  if (!ok) throw new SsoFailure('answer_invalid', `the ${name} answered with status ${status}`);
}

export async function readAnswer<S extends z.ZodType>(
  response: Response,
  name: string,
  schema: S,
): Promise<z.output<S>> {
  return usable(await response.json().catch(() => undefined), name, schema);
}

/** Parses an answer of an endpoint. @throws SsoFailure */
export function usable<S extends z.ZodType>(answer: unknown, name: string, schema: S): z.output<S> {
  const { data, error } = schema.safeParse(answer);
  if (error !== undefined) {
    const [issue] = error.issues;
    throw new SsoFailure('answer_invalid', `the ${name}: ${issue?.path.join('.')}: ${issue?.message}`);
  }
  return data;
}

/** Checks that this server may connect to a URL, without a request. The name is looked up again each time. */
export const assertReachable = (outbound: ProviderFetch, name: string, url: string): Promise<void> =>
  guarded(name, () => outbound.assertPermitted(url));

async function guarded<T>(name: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error;
    const reason = UNREACHED.has(error.reason) ? 'provider_unreachable' : 'answer_invalid';
    throw new SsoFailure(reason, `the ${name}: ${error.reason}`);
  }
}
