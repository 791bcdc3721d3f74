import { timingSafeEqual } from 'node:crypto';
import { compactVerify, errors, type JWTVerifyGetKey } from 'jose';
import {
  type ClientAuth,
  ClientError,
  ClientSecretPost,
  clockTolerance,
  Configuration,
  type CustomFetch,
  customFetch,
  fetchUserInfo,
  genericGrantRequest,
  skipSubjectCheck,
} from 'openid-client';
import { z } from 'zod';
import { clock } from '../../clock.ts';
import { Claims } from './oidc-claims.ts';
import { SIGNING_ALGORITHMS, type OidcSettings } from './oidc-discovery.ts';
import { assertOk, callProvider, type ProviderFetch, readAnswer, usable } from './provider-call.ts';
import { SsoFailure, type SsoFailureReason } from './sso-failure.ts';

/** How far the clocks of the provider and of this server may differ. */
const TOLERANCE_SECONDS = 60;

const TOKEN = 'token endpoint';
const USERINFO = 'userinfo endpoint';

interface Parts {
  outbound: ProviderFetch;
  keys: JWTVerifyGetKey;
}

/**
 * Exchanges the code of a sign-in, and returns the claims about the person and the tokens. openid-client makes the
 * requests and checks the claims (docs/decisions/sso-protocols.md).
 * @throws SsoFailure
 */
export async function identify(
  settings: OidcSettings,
  signIn: { code: string; codeVerifier: string; nonce: string; callbackUrl: string },
  parts: Parts,
) {
  const client = clientOf(settings, parts);
  // Not `authorizationCodeGrant`, which checks the nonce only if an ID token is required: a provider may send none.
  const answer = await refusals(
    genericGrantRequest(client, 'authorization_code', {
      code: signIn.code,
      code_verifier: signIn.codeVerifier,
      redirect_uri: signIn.callbackUrl,
    }),
  );
  const { access_token: accessToken, refresh_token: refreshToken, expires_in: seconds } = answer;
  const claims = answer.claims();
  const idToken = claims && checkedIdToken(claims, { ...signIn, clientId: settings.clientId });
  const userinfo =
    settings.userinfoUrl === null
      ? undefined
      : await refusals(fetchUserInfo(client, accessToken, idToken?.sub ?? skipSubjectCheck));
  if (idToken === undefined && userinfo === undefined) {
    throw new SsoFailure('answer_invalid', 'there is neither an ID token nor a userinfo endpoint');
  }
  return {
    idToken,
    userinfo: userinfo && usable(userinfo, USERINFO, Claims),
    tokens: {
      accessToken,
      refreshToken,
      expiresAt: seconds === undefined ? undefined : new Date(clock.now() + seconds * 1000),
    },
  };
}

const IdTokenClaims = Claims.extend({
  azp: z.string().optional(),
  iat: z.number(),
  nonce: z.string().optional(),
});

/** Makes the checks that openid-client leaves out, or makes only for a token with several audiences. */
function checkedIdToken(payload: unknown, expected: { nonce: string; clientId: string }): Claims {
  const claims = usable(payload, 'ID token', IdTokenClaims);
  if (claims.azp !== undefined && claims.azp !== expected.clientId) {
    throw new SsoFailure('audience_mismatch', 'the ID token was issued to another client');
  }
  if (claims.iat > clock.now() / 1000 + TOLERANCE_SECONDS) {
    throw new SsoFailure('answer_expired', 'the ID token was issued in the future');
  }
  const [a, b] = [Buffer.from(claims.nonce ?? ''), Buffer.from(expected.nonce)];
  if (a.length !== b.length || !timingSafeEqual(a, b)) throw new SsoFailure('nonce_mismatch');
  return claims;
}

function clientOf(settings: OidcSettings, parts: Parts): Configuration {
  const { issuer, tokenUrl, userinfoUrl, clientId, clientSecret, tokenAuthMethod } = settings;
  const client = new Configuration(
    {
      issuer,
      token_endpoint: tokenUrl,
      ...(userinfoUrl === null ? {} : { userinfo_endpoint: userinfoUrl }),
      id_token_signing_alg_values_supported: [...SIGNING_ALGORITHMS],
      userinfo_signing_alg_values_supported: [...SIGNING_ALGORITHMS],
    },
    clientId,
    { [clockTolerance]: TOLERANCE_SECONDS },
    tokenAuthMethod === 'client_secret_basic'
      ? clientSecretBasic(clientId, clientSecret)
      : ClientSecretPost(clientSecret),
  );
  client[customFetch] = checkedFetch(parts);
  // The limits of time are those of the guarded fetch.
  client.timeout = 0;
  return client;
}

/**
 * RFC 6749 2.3.1: both parts are form-encoded before they are joined, so that either may contain a colon. The function of
 * openid-client is not used, because it also encodes `-`, `.` and `_`, which well-known providers do not decode.
 */
function clientSecretBasic(clientId: string, clientSecret: string): ClientAuth {
  const encoded = (text: string) => new URLSearchParams({ '': text }).toString().slice(1);
  const credentials = Buffer.from(`${encoded(clientId)}:${encoded(clientSecret)}`).toString('base64');
  return (_server, _client, _body, headers) => headers.set('authorization', `Basic ${credentials}`);
}

/** RFC 6749, appendix A: visible ASCII and spaces. Checked because the token is sent in a header later. */
const Token = z.string().regex(/^[\x20-\x7e]+$/, 'must be visible ASCII');

/** Some providers send null. openid-client accepts only a field that is absent. */
const absent = <S extends z.ZodType>(schema: S) => schema.nullish().transform((value) => value ?? undefined);

const Tokens = z.object({
  access_token: Token,
  token_type: z.string().regex(/^bearer$/i, 'must be Bearer'),
  id_token: absent(z.string()),
  refresh_token: absent(Token),
  // Some providers send digits in quotes. An invalid value is ignored, because it is no reason to refuse a sign-in.
  expires_in: absent(z.coerce.number().int().min(0).max(3_153_600_000)).catch(undefined),
});

/**
 * How openid-client reaches a provider. It receives only responses of the expected form and size, and only tokens whose
 * signatures are verified. Its own verification would refuse a new key of the provider for up to a minute.
 */
function checkedFetch({ outbound, keys }: Parts): CustomFetch {
  return async (url, { headers: { accept = '', 'user-agent': _ofLibrary, ...headers }, body }) => {
    const request = { headers, accept: accept.split(', ') };
    if (body instanceof URLSearchParams) {
      const form = { ...request, method: 'POST', body: body.toString() } as const;
      const response = await callProvider(outbound, TOKEN, url, form);
      if (!response.ok) throw await refusalOf(response);
      const tokens = await readAnswer(response, TOKEN, Tokens);
      if (tokens.id_token !== undefined) await assertSigned('ID token', tokens.id_token, keys);
      return Response.json(tokens);
    }
    const response = await callProvider(outbound, USERINFO, url, request);
    assertOk(response, USERINFO);
    const isSigned =
      response.headers.get('content-type')?.toLowerCase().startsWith('application/jwt') === true;
    if (!isSigned) return Response.json(await readAnswer(response, USERINFO, Claims));
    const token = (await response.text()).trim();
    await assertSigned('userinfo response', token, keys);
    return new Response(token, { headers: { 'content-type': 'application/jwt' } });
  };
}

/**
 * Only keys of the provider's key set are used, and never a key that the token contains or links to. Unusable keys, such
 * as short ones, make jose throw errors of other classes than its own.
 */
async function assertSigned(name: string, token: string, keys: JWTVerifyGetKey): Promise<void> {
  try {
    await compactVerify(token, keys, { algorithms: [...SIGNING_ALGORITHMS] });
  } catch (error) {
    if (error instanceof SsoFailure) throw error;
    const reason = error instanceof errors.JOSEAlgNotAllowed ? 'algorithm_not_allowed' : 'signature_invalid';
    throw new SsoFailure(reason, `the ${name}: ${String(error)}`, { cause: error });
  }
}

const Refusal = z.object({ error: z.string() });

/** The failure reason for each error code of RFC 6749 5.2. All others become `provider_refused`. */
const REASON_OF_ERROR: Readonly<Record<string, SsoFailureReason>> = {
  invalid_client: 'client_refused',
  unauthorized_client: 'client_refused',
  // The code is unknown, used, expired, or belongs to another client or verifier.
  invalid_grant: 'answer_invalid',
};

async function refusalOf(response: Response): Promise<SsoFailure> {
  const { data } = Refusal.safeParse(await response.json().catch(() => undefined));
  const code = data?.error.slice(0, 100) ?? '';
  const known = Object.hasOwn(REASON_OF_ERROR, code) ? REASON_OF_ERROR[code] : undefined;
  const reason = known ?? (response.status === 401 ? 'client_refused' : 'provider_refused');
  return new SsoFailure(reason, `the token endpoint answered with status ${response.status} ${code}`);
}

/** Converts the errors of openid-client, which are about claims, or contain a failure of the fetch above. */
async function refusals<T>(call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    if (!(error instanceof ClientError)) throw error;
    if (error.cause instanceof SsoFailure) throw error.cause;
    const { message } = error.cause instanceof Error ? error.cause : error;
    throw new SsoFailure(reasonOf(error), message, { cause: error });
  }
}

/** The refusals of openid-client: one claim that differs, or claims of which one is missing or of a wrong type. */
const Refused = z
  .object({ claim: z.string(), claims: z.looseObject({}) })
  .partial()
  .catch({});

function reasonOf({ code, cause }: ClientError): SsoFailureReason {
  if (code === 'OAUTH_JWT_TIMESTAMP_CHECK_FAILED') return 'answer_expired';
  const { claim, claims } = Refused.parse(cause instanceof Error ? cause.cause : undefined);
  const isAbout = (name: string) => claim === name || (claims !== undefined && claims[name] === undefined);
  if (isAbout('iss')) return 'issuer_mismatch';
  return isAbout('aud') || claim === 'azp' ? 'audience_mismatch' : 'answer_invalid';
}
