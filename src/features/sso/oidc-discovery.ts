import { z } from 'zod';
import { type SsoProvider, clientSecretContext } from './sso.model.ts';
import type { TOKEN_AUTH_METHODS } from './sso.schema.ts';
import { SsoFailure } from './sso-failure.ts';
import { assertReachable, getDocument, type ProviderFetch } from './provider-call.ts';
import { createRemoteJWKSet, customFetch, type JWTVerifyGetKey } from 'jose';
import type { Encryptor } from '../../platform/secrets/sealed.ts';

/**
 * The permitted signature algorithms of ID tokens. All are asymmetric. With a shared secret, everybody who knows the
 * secret could sign, and an attacker could use a public key as the secret.
 */
export const SIGNING_ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
] as const;

export interface Endpoints {
  authorizationUrl: string;
  tokenUrl: string;
  userinfoUrl: string | null;
  jwksUrl: string;
}

/** The settings in a provider's discovery document (OpenID Connect Discovery 1.0). */
export interface Discovered extends Endpoints {
  /** With the spelling of the document, because ID tokens use it too. */
  issuer: string;
  /** The provider names itself in each authorization response (RFC 9207). */
  sendsIssuer: boolean;
  tokenAuthMethod: (typeof TOKEN_AUTH_METHODS)[number];
}

/** Limited to the length of the columns. The guarded fetch checks that this server may connect to it. */
const Endpoint = z.url({ protocol: /^https$/, error: 'must be an HTTPS URL' }).max(500);

const Words = z.array(z.string().max(100)).max(100);

const DiscoveryDocument = z.object({
  issuer: z.string().max(500),
  authorization_endpoint: Endpoint,
  token_endpoint: Endpoint,
  userinfo_endpoint: Endpoint.nullish(),
  jwks_uri: Endpoint,
  authorization_response_iss_parameter_supported: z.boolean().nullish(),
  // The default of the specification.
  token_endpoint_auth_methods_supported: Words.nullish().transform((list) => list ?? ['client_secret_basic']),
  response_types_supported: Words.nullish(),
  id_token_signing_alg_values_supported: Words.nullish(),
});
type DiscoveryDocument = z.output<typeof DiscoveryDocument>;

/**
 * Reads the discovery document of an issuer, and checks that this server may connect to all endpoints.
 * @throws SsoFailure `provider_unreachable`, `issuer_mismatch` or `answer_invalid`
 */
export async function discover(outbound: ProviderFetch, issuer: string): Promise<Discovered> {
  const found = await readDiscovery(outbound, issuer);
  await assertEndpoints(outbound, found);
  return found;
}

/** Reads the discovery document of an issuer, and does not check the endpoints. */
export async function readDiscovery(outbound: ProviderFetch, issuer: string): Promise<Discovered> {
  const document = await getDocument(outbound, 'discovery document', discoveryUrl(issuer), {
    schema: DiscoveryDocument,
  });
  // The issuers of some providers, such as Auth0, end with a slash, and people leave it out.
  if (document.issuer !== issuer && document.issuer !== `${issuer}/`) {
    throw new SsoFailure('issuer_mismatch', `the discovery document names the issuer ${document.issuer}`);
  }
  const { response_types_supported: responses, id_token_signing_alg_values_supported: algorithms } = document;
  if (responses?.includes('code') === false) {
    throw new SsoFailure('answer_invalid', 'the provider does not offer the authorization code flow');
  }
  if (algorithms?.some((name) => SIGNING_ALGORITHMS.some((known) => known === name)) === false) {
    throw new SsoFailure('answer_invalid', `the provider signs only with ${algorithms.join(', ')}`);
  }
  return {
    issuer: document.issuer,
    authorizationUrl: document.authorization_endpoint,
    tokenUrl: document.token_endpoint,
    userinfoUrl: document.userinfo_endpoint ?? null,
    jwksUrl: document.jwks_uri,
    sendsIssuer: document.authorization_response_iss_parameter_supported === true,
    tokenAuthMethod: tokenAuthMethod(document),
  };
}

/**
 * Checks that no endpoint leads into an internal network now. The DNS may change, so it is repeated at each sign-in.
 */
export async function assertEndpoints(
  outbound: ProviderFetch,
  { authorizationUrl, tokenUrl, userinfoUrl, jwksUrl }: Endpoints,
): Promise<void> {
  const named = { authorizationUrl, tokenUrl, jwksUrl, ...(userinfoUrl === null ? {} : { userinfoUrl }) };
  await Promise.all(Object.entries(named).map(([name, url]) => assertReachable(outbound, name, url)));
}

/**
 * Refuses the issuer of a multi-tenant document, such as `https://login.example/{tenantid}`, because no token can
 * contain it.
 */
function discoveryUrl(issuer: string): string {
  if (/[{}]/.test(issuer)) throw new SsoFailure('issuer_mismatch', 'the issuer is a template');
  const url = URL.canParse(issuer) ? new URL(issuer) : undefined;
  if (url === undefined || url.search !== '' || url.hash !== '' || /[?#]/.test(issuer)) {
    throw new SsoFailure('answer_invalid', 'the issuer must be a URL without query and fragment');
  }
  return `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
}

function tokenAuthMethod({ token_endpoint_auth_methods_supported: offered }: DiscoveryDocument) {
  const ours = (['client_secret_basic', 'client_secret_post'] as const).find((one) => offered.includes(one));
  if (ours === undefined) {
    throw new SsoFailure('answer_invalid', `the token endpoint accepts only ${offered.join(', ')}`);
  }
  return ours;
}

/** The settings of a provider that a sign-in needs. All are present. */
export interface OidcSettings extends Endpoints, Pick<SsoProvider, 'sendsIssuer' | 'tokenAuthMethod'> {
  issuer: string;
  clientId: string;
  clientSecret: string;
  /** Without `openid`, which is always requested. */
  scopes: string[];
}

/** @throws SsoFailure `not_configured` */
export function oidcSettings(provider: SsoProvider, encryptor: Encryptor): OidcSettings {
  const { issuer, clientId, clientSecret, authorizationUrl, tokenUrl, userinfoUrl, jwksUrl } = provider;
  if (!issuer || !clientId || !clientSecret || !authorizationUrl || !tokenUrl || !jwksUrl) {
    throw new SsoFailure('not_configured', 'Provider is not fully configured');
  }
  return {
    issuer,
    clientId,
    clientSecret: encryptor.open(clientSecret, clientSecretContext(provider.id)).text,
    authorizationUrl,
    tokenUrl,
    userinfoUrl: userinfoUrl === '' ? null : userinfoUrl,
    jwksUrl,
    sendsIssuer: provider.sendsIssuer,
    tokenAuthMethod: provider.tokenAuthMethod,
    scopes: provider.scopes.split(/\s+/).filter((scope) => scope !== '' && scope !== 'openid'),
  };
}

/** Some providers send null instead of nothing. */
const member = <S extends z.ZodType>(schema: S) => schema.nullish().transform((value) => value ?? undefined);

/** The public members of a key. Other data that a provider publishes is not kept in memory. */
const Key = z.object({
  kty: z.string(),
  kid: member(z.string()),
  use: member(z.string()),
  key_ops: member(z.array(z.string()).max(20)),
  alg: member(z.string()),
  n: member(z.string()),
  e: member(z.string()),
  crv: member(z.string()),
  x: member(z.string()),
  y: member(z.string()),
});

/** RFC 7517, 5: keys that cannot be used are ignored, because the others sign. */
const KeySet = z.object({
  keys: z
    .array(z.unknown())
    .max(100)
    .transform((keys) => keys.flatMap((key) => Key.safeParse(key).data ?? [])),
});

/** @throws SsoFailure */
export const fetchKeys = (outbound: ProviderFetch, jwksUrl: string): Promise<z.output<typeof KeySet>> =>
  getDocument(outbound, 'key set', jwksUrl, {
    schema: KeySet,
    accept: ['application/json', 'application/jwk-set+json'],
  });

export interface KeyCacheLimits {
  /**
   * The minimum time between two fetches because of an unknown key. It is short, because each unknown key needs a whole
   * sign-in at the provider, and because people cannot sign in with a new key until it is fetched.
   */
  cooldownMs?: number;
  maxUrls?: number;
}

/** The keys of providers, by URL. Sign-ins that wait for the same keys share one request. */
export class KeyCache {
  readonly #outbound: ProviderFetch;
  readonly #cooldownMs: number;
  readonly #maxUrls: number;
  /** The least recently used first. */
  readonly #byUrl = new Map<string, JWTVerifyGetKey>();

  constructor(outbound: ProviderFetch, { cooldownMs = 1000, maxUrls = 500 }: KeyCacheLimits = {}) {
    this.#outbound = outbound;
    this.#cooldownMs = cooldownMs;
    this.#maxUrls = maxUrls;
  }

  get size(): number {
    return this.#byUrl.size;
  }

  of(jwksUrl: string): JWTVerifyGetKey {
    const keys = this.#byUrl.get(jwksUrl) ?? this.#create(jwksUrl);
    this.#byUrl.delete(jwksUrl);
    this.#byUrl.set(jwksUrl, keys);
    const [oldest] = this.#byUrl.keys();
    if (this.#byUrl.size > this.#maxUrls && oldest !== undefined) this.#byUrl.delete(oldest);
    return keys;
  }

  #create(jwksUrl: string): JWTVerifyGetKey {
    return createRemoteJWKSet(new URL(jwksUrl), {
      cooldownDuration: this.#cooldownMs,
      // The limits of time and size are those of the guarded fetch.
      [customFetch]: async () => Response.json(await fetchKeys(this.#outbound, jwksUrl)),
    });
  }
}
