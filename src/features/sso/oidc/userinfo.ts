import { Claims } from './claims.ts';
import { assertOk, callProvider, type ProviderFetch, readAnswer } from './provider-call.ts';

/**
 * Fetches the claims about the person to whom the access token belongs.
 * @throws SsoFailure
 */
export async function fetchUserinfo(
  outbound: ProviderFetch,
  userinfoUrl: string,
  accessToken: string,
): Promise<Claims> {
  const response = await callProvider(outbound, 'userinfo endpoint', userinfoUrl, {
    headers: { authorization: `Bearer ${accessToken}` },
    accept: ['application/json'],
  });
  assertOk(response, 'userinfo endpoint');
  return readAnswer(response, 'userinfo endpoint', Claims);
}
