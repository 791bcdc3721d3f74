import { createOidcProtocol, type OidcProtocolOptions } from '../../../../src/features/sso/oidc.ts';
import { discover } from '../../../../src/features/sso/oidc-discovery.ts';
import { SsoProvider, clientSecretContext } from '../../../../src/features/sso/sso.model.ts';
import { SsoFailure } from '../../../../src/features/sso/sso-failure.ts';
import type { AssertedIdentity, SsoProtocol } from '../../../../src/features/sso/sso-protocol.ts';
import type { PublicContext } from '../../../../src/platform/context.ts';
import { GuardedFetch, type GuardedFetchOptions } from '../../../../src/platform/outbound/guarded-fetch.ts';
import { createEncryptor } from '../../../../src/platform/secrets/sealed.ts';
import { TEST_AUTHORITY } from '../../https-server.ts';
import { quietLog } from '../../quiet-log.ts';

export const CALLBACK_URL = 'http://localhost:4000/api/v1/sso/callback';

const encryptor = createEncryptor({ current: 'a-key-that-only-tests-seal-with', old: [] });

/** For providers that do not answer: so short that a test need not wait, and too short for others on a busy machine. */
export const IMPATIENT = { connectMs: 2000, headersMs: 500, totalMs: 1000 };

/** A guarded fetch that may reach loopback. */
export const testFetch = (options: Partial<GuardedFetchOptions> = {}): GuardedFetch =>
  new GuardedFetch({
    addresses: { allowedInternal: ['127.0.0.1'] },
    log: quietLog,
    limits: { connectMs: 30_000, headersMs: 30_000, totalMs: 60_000 },
    ...options,
    testing: { ca: TEST_AUTHORITY, ...options.testing },
  });

export const testProtocol = (options: Partial<OidcProtocolOptions> = {}): SsoProtocol =>
  createOidcProtocol({ fetch: testFetch(), encryptor, callbackUrl: () => CALLBACK_URL, ...options });

/** A provider as the server stores it after discovery. */
export async function providerOf(
  idp: { issuer: string },
  client: { clientId: string; clientSecret: string },
  settings: Partial<SsoProvider> = {},
): Promise<SsoProvider> {
  const id = '00000000-0000-7000-8000-000000000001';
  return Object.assign(new SsoProvider(), {
    id,
    type: 'oidc',
    clientId: client.clientId,
    clientSecret: encryptor.seal(client.clientSecret, clientSecretContext(id)),
    scopes: 'openid profile email',
    attributeMapping: { email: 'email', name: 'name' },
    ...(await discover(testFetch(), idp.issuer)),
    ...settings,
  });
}

/** The callback's query as the server reads it: a parameter that came twice is an array. */
export function queryOf(url: string): Record<string, unknown> {
  const { searchParams } = new URL(url);
  const names = [...new Set(searchParams.keys())];
  return Object.fromEntries(
    names.map((name) => {
      const values = searchParams.getAll(name);
      return [name, values.length === 1 ? values[0] : values];
    }),
  );
}

let count = 0;
export const newState = (): string => `state-${++count}`;

/** A whole sign-in, with all that happens between its two halves. */
export async function signIn(
  protocol: SsoProtocol,
  provider: SsoProvider,
  browser: (url: string) => Promise<string>,
): Promise<AssertedIdentity> {
  const state = newState();
  const { url, nonce, codeVerifier } = await protocol.begin(provider, state);
  const query = queryOf(await browser(url));
  return protocol.finish(testContext, provider, { state, nonce, codeVerifier, samlResponse: null }, query);
}

/** The reason of a failure; the test fails where there is none, or one of another kind. */
export async function reasonOf(attempt: Promise<unknown>): Promise<string> {
  const outcome: unknown = await attempt.then(
    (value) => new Error(`It succeeded: ${JSON.stringify(value)}`),
    (error: unknown) => error,
  );
  if (outcome instanceof SsoFailure) return outcome.reason;
  throw outcome;
}

export const testContext: PublicContext = {
  requestId: 'test',
  log: quietLog,
  client: { ip: '192.0.2.1', trusted: true, userAgent: null },
  arrivedAt: 0,
  withSystem: () => Promise.reject(new Error('The protocols use no database.')),
};
