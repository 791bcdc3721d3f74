import { randomBytes } from 'node:crypto';
import { calculatePKCECodeChallenge } from 'openid-client';
import passport from 'passport';
import OpenIdStrategy from 'passport-openidconnect';
import { z } from 'zod';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import { identityFrom } from './oidc-claims.ts';
import { identify } from './oidc-client.ts';
import {
  assertEndpoints,
  KeyCache,
  type KeyCacheLimits,
  type OidcSettings,
  oidcSettings,
} from './oidc-discovery.ts';
import type { ProviderFetch } from './provider-call.ts';
import { SsoFailure } from './sso-failure.ts';
import type { SsoProtocol } from './sso-protocol.ts';
import { shortened } from '../../protocol/index.ts';

export interface OidcProtocolOptions {
  fetch: ProviderFetch;
  encryptor: Encryptor;
  /** The URL to which the provider redirects the browser. */
  callbackUrl: () => string;
  keyCache?: KeyCacheLimits;
}

/** OpenID Connect: the authorization code flow with PKCE (docs/decisions/sso-protocols.md). */
export function createOidcProtocol({
  fetch: outbound,
  encryptor,
  ...options
}: OidcProtocolOptions): SsoProtocol {
  const keys = new KeyCache(outbound, options.keyCache);
  return {
    async begin(provider, state) {
      const settings = oidcSettings(provider, encryptor);
      await assertEndpoints(outbound, settings);
      const nonce = randomBytes(32).toString('base64url');
      const codeVerifier = randomBytes(48).toString('base64url');
      const parameters = {
        nonce,
        code_challenge: await calculatePKCECodeChallenge(codeVerifier),
        code_challenge_method: 'S256',
      };
      const strategy = new Strategy(settings, options.callbackUrl(), { state, parameters });
      const { redirect } = await run(strategy, {});
      if (redirect === undefined) throw new Error('passport-openidconnect has built no request.');
      return { url: authorizationUrl(settings, redirect), nonce, codeVerifier };
    },

    async finish(_ctx, provider, { state, nonce, codeVerifier }, query) {
      const settings = oidcSettings(provider, encryptor);
      if (codeVerifier === null) throw new SsoFailure('answer_invalid', 'the sign-in has no verifier');
      const callbackUrl = options.callbackUrl();
      const parts = { outbound: keeping(outbound, provider.id), keys: keys.of(settings.jwksUrl) };
      const exchange = (code: string) =>
        identify(settings, { code, codeVerifier, nonce, callbackUrl }, parts);
      const strategy = new Strategy(settings, callbackUrl, { state, exchange });
      const { result } = await run(strategy, readQuery(query, settings));
      if (result === undefined) throw new SsoFailure('answer_invalid', 'the callback is of another sign-in');
      return { ...identityFrom(result, provider.attributeMapping), tokens: result.tokens };
    },
  };
}

/** The requests of one provider's sign-ins come shortly after each other, so they share connections. */
const keeping = (outbound: ProviderFetch, providerId: string): ProviderFetch => ({
  fetch: (url, request) => outbound.fetch(url, { ...request, keepFor: providerId }),
  assertPermitted: (url) => outbound.assertPermitted(url),
});

/** The query of the callback. A parameter that occurs twice is an array, and is refused. */
const Callback = z.object({
  state: z.string().max(64),
  code: z.string().min(1).max(4096).optional(),
  error: z.string().max(4096).optional(),
  iss: z.string().max(500).optional(),
});

/**
 * All tenants share one callback, and a tenant may run a hostile provider. A response of that provider must not count
 * as one of another provider (RFC 9207), so the issuer is checked first, also in error responses.
 */
function readQuery(query: unknown, { issuer, sendsIssuer }: OidcSettings): { code: string; state: string } {
  const { data, error: fault } = Callback.safeParse(query);
  if (data === undefined) {
    throw new SsoFailure('answer_invalid', `the query parameter ${fault.issues[0]?.path.join('.')}`);
  }
  const { iss, error, code, state } = data;
  if (iss === undefined ? sendsIssuer : iss !== issuer) {
    throw new SsoFailure('issuer_mismatch', `the answer names the issuer ${iss ?? '(none)'}`);
  }
  if (error !== undefined) throw new SsoFailure('provider_refused', shortened(error, 100));
  if (code === undefined) throw new SsoFailure('answer_invalid', 'there is no code');
  return { code, state };
}

/** The provider's endpoint with the parameters of a request, which replace those that the endpoint has. */
function authorizationUrl({ authorizationUrl: endpoint }: OidcSettings, request: string): string {
  const url = new URL(endpoint);
  url.hash = '';
  for (const [name, value] of new URL(request).searchParams) url.searchParams.set(name, value);
  return url.href;
}

/**
 * The URLs that passport-openidconnect gets instead of the provider's. It parses URLs with an older algorithm, which
 * finds a different host in some URLs than the guarded fetch does.
 */
const PLACEHOLDER = 'https://provider.invalid/';

interface Half<T> {
  state: string;
  /** Parameters of the authorization request that passport-openidconnect does not know. */
  parameters?: Record<string, string>;
  /** Does all that follows the code. Its result ends the strategy. */
  exchange?: (code: string) => Promise<T>;
}

/**
 * The only use of passport-openidconnect: it builds the authorization request and reads the callback. It trusts unsigned
 * ID tokens and has no limits of time and size, so its own requests and checks are replaced by `exchange`.
 */
class Strategy<T> extends OpenIdStrategy {
  constructor(
    { issuer, clientId, scopes }: OidcSettings,
    callbackURL: string,
    { state, parameters = {}, exchange = unexpected }: Half<T>,
  ) {
    super(
      {
        issuer,
        authorizationURL: PLACEHOLDER,
        tokenURL: PLACEHOLDER,
        userInfoURL: PLACEHOLDER,
        clientID: clientId,
        clientSecret: '',
        callbackURL,
        scope: scopes.length === 0 ? undefined : scopes,
        store: {
          store: (_request, _context, _appState, _meta, done) => done(null, state),
          verify: (_request, given, done) => done(null, given === state && {}),
        },
      },
      unexpected,
    );
    this.authorizationParams = () => parameters;
    Object.assign(this._oauth2, {
      getOAuthAccessToken: (code: string) => {
        exchange(code).then(
          (result) => this.success(result),
          (error: unknown) => this.error(error instanceof Error ? error : new Error(String(error))),
        );
      },
      _request: unexpected,
    });
  }
}

function unexpected(): never {
  throw new Error('passport-openidconnect has not ended with the exchange of the code.');
}

/**
 * Runs a strategy in Passport, which stores its callbacks on the instance, so each strategy is run once. All errors of the
 * strategy, also those in callbacks, reject the promise.
 */
function run<T>(
  strategy: Strategy<T>,
  query: { code?: string; state?: string },
): Promise<{ redirect?: string; result?: T | undefined }> {
  return new Promise((resolve, reject) => {
    const ended = (error: unknown, result?: T | false) => {
      if (error) reject(error);
      else resolve(result === false ? {} : { result });
    };
    const handle: Handler = new passport.Passport().authenticate(strategy, { session: false }, ended);
    const response = {
      setHeader: (name: string, value: string) => name === 'Location' && resolve({ redirect: value }),
      end: () => undefined,
    };
    handle({ query }, response, ended);
  });
}

type Handler = (request: object, response: object, next: (error?: unknown) => void) => void;
