import { SsoFailure } from '../sign-in/sso-failure.ts';
import { Claims } from './claims.ts';
import { callProvider, type ProviderFetch, readAnswer } from './provider-call.ts';

/**
 * What the provider says about the person whose access token this is.
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
  if (!response.ok) {
    throw new SsoFailure('answer_invalid', `the userinfo endpoint answered with status ${response.status}`);
  }
  return readAnswer(response, 'userinfo endpoint', Claims);
}
