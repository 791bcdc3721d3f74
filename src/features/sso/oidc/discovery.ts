import { z } from 'zod';
import type { TOKEN_AUTH_METHODS } from '../providers/provider.model.ts';
import { SsoFailure } from '../flow/sso-failure.ts';
import { SIGNING_ALGORITHMS } from './algorithms.ts';
import { assertReachable, getDocument, type ProviderFetch } from './provider-call.ts';

export interface Endpoints {
  authorizationUrl: string;
  tokenUrl: string;
  userinfoUrl: string | null;
  jwksUrl: string;
}

/** What a provider's own document says about it (OpenID Connect Discovery 1.0). */
export interface Discovered extends Endpoints {
  /** As the document spells it, which is how ID tokens name it. */
  issuer: string;
  /** Each answer to a browser names its issuer (RFC 9207). */
  sendsIssuer: boolean;
  tokenAuthMethod: (typeof TOKEN_AUTH_METHODS)[number];
}

/** As long as the columns are. Whether it may be reached is checked by the guarded fetch. */
const Endpoint = z.url({ protocol: /^https$/, error: 'must be an HTTPS URL' }).max(500);
const Words = z.array(z.string().max(100)).max(100);

const DiscoveryDocument = z.object({
  issuer: z.string().max(500),
  authorization_endpoint: Endpoint,
  token_endpoint: Endpoint,
  userinfo_endpoint: Endpoint.nullish(),
  jwks_uri: Endpoint,
  authorization_response_iss_parameter_supported: z.boolean().nullish(),
  // The specification's value where a document does not say.
  token_endpoint_auth_methods_supported: Words.nullish().transform((list) => list ?? ['client_secret_basic']),
  response_types_supported: Words.nullish(),
  id_token_signing_alg_values_supported: Words.nullish(),
});
type DiscoveryDocument = z.output<typeof DiscoveryDocument>;

/**
 * Asks an issuer for its endpoints, and checks that all of them may be reached.
 * @throws SsoFailure `provider_unreachable`, `issuer_mismatch` or `answer_invalid`
 */
export async function discover(outbound: ProviderFetch, issuer: string): Promise<Discovered> {
  const found = await readDiscovery(outbound, issuer);
  await assertEndpoints(outbound, found);
  return found;
}

/** The same without the check of the endpoints. */
export async function readDiscovery(outbound: ProviderFetch, issuer: string): Promise<Discovered> {
  const document = await getDocument(outbound, 'discovery document', discoveryUrl(issuer), {
    schema: DiscoveryDocument,
  });
  // People leave a slash at the end out, with which some providers, such as Auth0, name themselves.
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

/** Checks that no endpoint leads into an inner network, at this moment. */
export async function assertEndpoints(
  outbound: ProviderFetch,
  { authorizationUrl, tokenUrl, userinfoUrl, jwksUrl }: Endpoints,
): Promise<void> {
  const named = { authorizationUrl, tokenUrl, jwksUrl, ...(userinfoUrl === null ? {} : { userinfoUrl }) };
  await Promise.all(Object.entries(named).map(([name, url]) => assertReachable(outbound, name, url)));
}

/** A multi-tenant document has an issuer such as `https://login.example/{tenantid}`, which no token can name. */
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
