import { type JWTVerifyGetKey, jwtVerify } from 'jose';
import { SsoFailure } from '../flow/sso-failure.ts';
import { SIGNING_ALGORITHMS } from './algorithms.ts';
import { Claims } from './claims.ts';
import { TOLERANCE_SECONDS, tokenFailure } from './id-token.ts';
import type { OidcSettings } from './oidc-settings.ts';
import { assertOk, callProvider, type ProviderFetch, readAnswer, usable } from './provider-call.ts';

const ENDPOINT = 'userinfo endpoint';

/**
 * Fetches the claims about the person to whom the access token belongs. Providers send them as JSON, or as a signed
 * token (OpenID Connect Core 5.3.2), as the client is registered there.
 * @throws SsoFailure
 */
export async function fetchUserinfo(
  outbound: ProviderFetch,
  { userinfoUrl, ...settings }: SignedBy & { userinfoUrl: string },
  accessToken: string,
): Promise<Claims> {
  const response = await callProvider(outbound, ENDPOINT, userinfoUrl, {
    headers: { authorization: `Bearer ${accessToken}` },
    accept: ['application/json', 'application/jwt'],
  });
  assertOk(response, ENDPOINT);
  const isSigned = response.headers.get('content-type')?.toLowerCase().startsWith('application/jwt') === true;
  if (!isSigned) return readAnswer(response, ENDPOINT, Claims);
  return usable(await verified((await response.text()).trim(), settings), ENDPOINT, Claims);
}

type SignedBy = Pick<OidcSettings, 'issuer' | 'clientId'> & { keys: JWTVerifyGetKey };

/**
 * A signature that is there has to be right, like that of an ID token. Issuer and audience may be missing, because the
 * answer comes from the endpoint itself; if they are present, they have to name this provider and this client.
 */
async function verified(token: string, { issuer, clientId, keys }: SignedBy): Promise<unknown> {
  const { payload } = await jwtVerify(token, keys, {
    algorithms: [...SIGNING_ALGORITHMS],
    clockTolerance: TOLERANCE_SECONDS,
  }).catch((error: unknown) => {
    throw tokenFailure('the userinfo response', error);
  });
  if (payload.iss !== undefined && payload.iss !== issuer) {
    throw new SsoFailure('issuer_mismatch', 'the userinfo response names another issuer');
  }
  if (payload.aud !== undefined && ![payload.aud].flat().includes(clientId)) {
    throw new SsoFailure('audience_mismatch', 'the userinfo response was made for another client');
  }
  return payload;
}
