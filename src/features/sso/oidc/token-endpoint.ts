import { z } from 'zod';
import { clock } from '../../../clock.ts';
import { SsoFailure, type SsoFailureReason } from '../flow/sso-failure.ts';
import type { OidcSettings } from './oidc-settings.ts';
import { callProvider, type ProviderFetch, readAnswer } from './provider-call.ts';

/** RFC 6749, appendix A: visible ASCII and spaces. Checked because the token is sent in a header later. */
const Token = z.string().regex(/^[\x20-\x7e]+$/, 'must be visible ASCII');

const Tokens = z.object({
  access_token: Token,
  token_type: z.string().regex(/^bearer$/i, 'must be Bearer'),
  id_token: z.string().nullish(),
  refresh_token: Token.nullish(),
  // Some providers send digits in quotes. An invalid value is ignored, because it is no reason to refuse a sign-in.
  expires_in: z.coerce.number().int().min(0).max(3_153_600_000).nullish().catch(undefined),
});

export interface Tokens {
  accessToken: string;
  refreshToken: string | undefined;
  expiresAt: Date | undefined;
  idToken: string | undefined;
}

const Refusal = z.object({ error: z.string() });

/** The failure reason for each error code of RFC 6749 5.2. All others become `provider_refused`. */
const REASON_OF_ERROR: Readonly<Record<string, SsoFailureReason>> = {
  invalid_client: 'client_refused',
  unauthorized_client: 'client_refused',
  // The code is unknown, used, expired, or belongs to another client or verifier.
  invalid_grant: 'answer_invalid',
};

/** @throws SsoFailure */
export async function exchangeCode(
  outbound: ProviderFetch,
  settings: OidcSettings,
  answer: { code: string; codeVerifier: string; callbackUrl: string },
): Promise<Tokens> {
  const { clientId, clientSecret, tokenAuthMethod, tokenUrl } = settings;
  const form = new URLSearchParams({
    grant_type: 'authorization_code',
    code: answer.code,
    redirect_uri: answer.callbackUrl,
    code_verifier: answer.codeVerifier,
  });
  const headers: Record<string, string> = { 'content-type': 'application/x-www-form-urlencoded' };
  if (tokenAuthMethod === 'client_secret_basic') {
    headers.authorization = basicAuthorization(clientId, clientSecret);
  } else {
    form.set('client_id', clientId);
    form.set('client_secret', clientSecret);
  }
  const response = await callProvider(outbound, 'token endpoint', tokenUrl, {
    method: 'POST',
    headers,
    body: form.toString(),
    accept: ['application/json'],
  });
  if (!response.ok) throw await refusal(response);
  const tokens = await readAnswer(response, 'token endpoint', Tokens);
  const seconds = tokens.expires_in ?? undefined;
  return {
    accessToken: tokens.access_token,
    refreshToken: tokens.refresh_token ?? undefined,
    expiresAt: seconds === undefined ? undefined : new Date(clock.now() + seconds * 1000),
    idToken: tokens.id_token ?? undefined,
  };
}

/** RFC 6749 2.3.1: both parts are form-encoded before they are joined, so that either may contain a colon. */
function basicAuthorization(clientId: string, clientSecret: string): string {
  const encoded = (text: string) => new URLSearchParams({ '': text }).toString().slice(1);
  return `Basic ${Buffer.from(`${encoded(clientId)}:${encoded(clientSecret)}`).toString('base64')}`;
}

async function refusal(response: Response): Promise<SsoFailure> {
  const { data } = Refusal.safeParse(await response.json().catch(() => undefined));
  const code = data?.error.slice(0, 100) ?? '';
  const known = Object.hasOwn(REASON_OF_ERROR, code) ? REASON_OF_ERROR[code] : undefined;
  const reason = known ?? (response.status === 401 ? 'client_refused' : 'provider_refused');
  return new SsoFailure(reason, `the token endpoint answered with status ${response.status} ${code}`);
}
