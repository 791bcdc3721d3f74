import { createHash, randomBytes } from 'node:crypto';
import { z } from 'zod';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import { SsoFailure } from '../flow/sso-failure.ts';
import type { AssertedIdentity, ConsumedSignIn, SsoProtocol } from '../flow/sso-protocol.ts';
import { identityFrom } from './claims.ts';
import { assertEndpoints } from './discovery.ts';
import { verifyIdToken } from './id-token.ts';
import { KeyCache, type KeyCacheLimits } from './key-cache.ts';
import { type OidcSettings, oidcSettings } from './oidc-settings.ts';
import { authorizationUrl, takeAnswer } from './passport-adapter.ts';
import type { ProviderFetch } from './provider-call.ts';
import { exchangeCode } from './token-endpoint.ts';
import { fetchUserinfo } from './userinfo.ts';

export interface OidcProtocolOptions {
  fetch: ProviderFetch;
  sealer: Sealer;
  /** The URL to which the provider redirects the browser. */
  callbackUrl: () => string;
  keyCache?: KeyCacheLimits;
}

/** The query of the callback. A parameter that occurs twice is an array, and is refused. */
const Answer = z.object({
  state: z.string().max(64),
  code: z.string().min(1).max(4096).optional(),
  error: z.string().max(4096).optional(),
  iss: z.string().max(500).optional(),
});
type Answer = z.output<typeof Answer>;

/** OpenID Connect: the authorization code flow with PKCE (docs/decisions/sso-oidc.md). */
export function createOidcProtocol(options: OidcProtocolOptions): SsoProtocol {
  const { sealer, callbackUrl } = options;
  const outbound = options.fetch;
  const keys = new KeyCache(outbound, options.keyCache);

  async function identify(
    { settings, kept }: { settings: OidcSettings; kept: ProviderFetch },
    signIn: ConsumedSignIn,
    code: string,
  ) {
    if (signIn.codeVerifier === null) throw new SsoFailure('answer_invalid', 'the sign-in has no verifier');
    const { idToken: token, ...tokens } = await exchangeCode(kept, settings, {
      code,
      codeVerifier: signIn.codeVerifier,
      callbackUrl: callbackUrl(),
    });
    const signedBy = { ...settings, keys: keys.of(settings.jwksUrl) };
    const idToken =
      token === undefined ? undefined : await verifyIdToken(token, { ...signedBy, nonce: signIn.nonce });
    const { userinfoUrl } = settings;
    const userinfo =
      userinfoUrl === null
        ? undefined
        : await fetchUserinfo(kept, { ...signedBy, userinfoUrl }, tokens.accessToken);
    if (idToken === undefined && userinfo === undefined) {
      throw new SsoFailure('answer_invalid', 'there is neither an ID token nor a userinfo endpoint');
    }
    if (idToken !== undefined && userinfo !== undefined && idToken.sub !== userinfo.sub) {
      throw new SsoFailure('answer_invalid', 'the userinfo response names another subject than the ID token');
    }
    return { idToken, userinfo, tokens };
  }

  return {
    async begin(provider, state) {
      const settings = oidcSettings(provider, sealer);
      await assertEndpoints(outbound, settings);
      const nonce = randomBytes(32).toString('base64url');
      const codeVerifier = randomBytes(48).toString('base64url');
      const url = await authorizationUrl(settings, callbackUrl(), {
        state,
        nonce,
        code_challenge: createHash('sha256').update(codeVerifier).digest('base64url'),
        code_challenge_method: 'S256',
      });
      return { url, nonce, codeVerifier };
    },

    async finish(_ctx, provider, signIn, query): Promise<AssertedIdentity> {
      const settings = oidcSettings(provider, sealer);
      const answer = readQuery(query);
      const code = codeOf(answer, settings);
      const { idToken, userinfo, tokens } = await takeAnswer(
        settings,
        callbackUrl(),
        { code, state: answer.state },
        {
          signIn,
          exchange: (code) => identify({ settings, kept: keeping(outbound, provider.id) }, signIn, code),
        },
      );
      return { ...identityFrom({ idToken, userinfo }, provider.attributeMapping), tokens };
    },
  };
}

/** The requests of one provider's sign-ins come shortly after each other, so they share connections. */
const keeping = (outbound: ProviderFetch, providerId: string): ProviderFetch => ({
  fetch: (url, request) => outbound.fetch(url, { ...request, keepFor: providerId }),
  assertPermitted: (url) => outbound.assertPermitted(url),
});

function readQuery(query: Readonly<Record<string, unknown>>): Answer {
  const { data, error } = Answer.safeParse(query);
  if (error !== undefined) {
    throw new SsoFailure('answer_invalid', `the query parameter ${error.issues[0]?.path.join('.')}`);
  }
  return data;
}

/**
 * All tenants share one callback, and a tenant may run a hostile provider. A response of that provider must not count
 * as one of another provider (RFC 9207), so the issuer is checked first, also in error responses.
 */
function codeOf({ iss, error, code }: Answer, { issuer, sendsIssuer }: OidcSettings): string {
  if (iss === undefined ? sendsIssuer : iss !== issuer) {
    throw new SsoFailure('issuer_mismatch', `the answer names the issuer ${iss ?? '(none)'}`);
  }
  if (error !== undefined) throw new SsoFailure('provider_refused', error.slice(0, 100));
  if (code === undefined) throw new SsoFailure('answer_invalid', 'there is no code');
  return code;
}
