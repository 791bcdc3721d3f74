import { raw } from 'objection';
import { z } from 'zod';
import type { PublicContext } from '../../../platform/context.ts';
import type { Tx } from '../../../platform/db/transaction.ts';
import { Redirect } from '../../../platform/http/browser-answer.ts';
import { SsoProvider } from '../providers/provider.model.ts';
import { loginPageUrl } from '../flow/login-page.ts';
import { SsoFailure } from '../flow/sso-failure.ts';
import { SsoSession } from '../flow/sso-session.model.ts';
import { MAX_BASE64_LENGTH } from './response.ts';

/**
 * A value that is not one text counts as missing, and not as an error: the browser must return to the dashboard in any
 * case.
 */
const Field = z.string().optional().catch(undefined);

/** The form that the browser brings from the identity provider (HTTP-POST binding). */
export const SamlForm = z.object({ SAMLResponse: Field, RelayState: Field }).catch({});
type SamlForm = z.output<typeof SamlForm>;

const STATE = /^[\w-]{1,64}$/;
const BASE64 = /^[A-Za-z0-9+/=\s]+$/;
/**
 * Stores a provider's response in the row of its sign-in, and redirects the browser to the callback. The form comes
 * from another site, so the browser does not send the state cookie (SameSite=Lax) with it. The browser sends the cookie
 * with the GET of the callback, and the response is checked there. If a form is sent twice, the first response is kept.
 */
export async function parkResponse(
  ctx: PublicContext,
  { SAMLResponse = '', RelayState: state = '' }: SamlForm,
  { baseUrl }: { baseUrl: () => string },
): Promise<Redirect> {
  const response =
    SAMLResponse.length <= MAX_BASE64_LENGTH && BASE64.test(SAMLResponse) ? SAMLResponse : null;
  const isKnown =
    STATE.test(state) &&
    (await ctx.withSystem('keep the answer of a SAML provider', (tx) => park(tx, state, response)));
  return new Redirect(
    isKnown
      ? `${baseUrl()}/api/v1/sso/callback?${new URLSearchParams({ state }).toString()}`
      : loginPageUrl(baseUrl(), new SsoFailure('session_unknown')),
  );
}

/** Returns whether such a sign-in is in progress. */
async function park(tx: Tx, state: string, response: string | null): Promise<boolean> {
  const parked = await SsoSession.query(tx)
    .where('state', state)
    .whereRaw('expires_at > now()')
    .whereIn('provider_id', SsoProvider.query(tx).select('id').where('type', 'saml'))
    .patch({ samlResponse: raw('coalesce(saml_response, ?)', [response]) });
  return parked > 0;
}
