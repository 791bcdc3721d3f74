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

/** Anything else than one text is nothing: a person must get back to the dashboard, whatever the provider has sent. */
const Field = z.string().optional().catch(undefined);

/** The form that the browser brings from the identity provider (HTTP-POST binding). */
export const SamlForm = z.object({ SAMLResponse: Field, RelayState: Field }).catch({});
type SamlForm = z.output<typeof SamlForm>;

const STATE = /^[\w-]{1,64}$/;
const BASE64 = /^[A-Za-z0-9+/=\s]+$/;
/**
 * Keeps a provider's answer with its sign-in, and sends the browser on to the callback. The form comes from another site,
 * so the state cookie (SameSite=Lax) is not with it; it is with the GET that follows, and nothing is checked before. The
 * first answer stays: the same form may come twice.
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

/** Answers whether such a sign-in is under way. */
async function park(tx: Tx, state: string, response: string | null): Promise<boolean> {
  const parked = await SsoSession.query(tx)
    .where('state', state)
    .whereRaw('expires_at > now()')
    .whereIn('provider_id', SsoProvider.query(tx).select('id').where('type', 'saml'))
    .patch({ samlResponse: raw('coalesce(saml_response, ?)', [response]) });
  return parked > 0;
}
