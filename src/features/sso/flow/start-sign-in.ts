import { randomBytes } from 'node:crypto';
import { raw } from 'objection';
import type { Db } from '../../../platform/db/pool.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import type { SsoProvider } from '../providers/provider.model.ts';
import type { SsoProtocol } from './sso-protocol.ts';
import { SsoSession } from './sso-session.model.ts';
import { SIGN_IN_MINUTES } from './state-cookie.ts';

export type Protocols = Readonly<Record<SsoProvider['type'], SsoProtocol>>;

export interface SignInPurpose {
  /** The path of the dashboard that the browser opens afterwards; null for its first page. */
  redirectUrl: string | null;
  /** The session of a signed-in person who links an identity; null for an ordinary sign-in. */
  linkSessionId: string | null;
}

export type StartSignIn = ReturnType<typeof createStartSignIn>;

/**
 * Begins a sign-in with an identity provider. The caller has to redirect the browser to `url` and to set the state
 * cookie. Throws `SsoFailure` if the provider cannot be used.
 */
export function createStartSignIn({ db, protocols }: { db: Db; protocols: Protocols }) {
  return async (provider: SsoProvider, purpose: SignInPurpose): Promise<{ url: string; state: string }> => {
    const state = randomBytes(32).toString('base64url');
    const { url, nonce, codeVerifier } = await protocols[provider.type].begin(provider, state);
    await withSystem(db, 'begin a sign-in with an identity provider', (tx) =>
      SsoSession.query(tx).insert({
        ...purpose,
        providerId: provider.id,
        providerVersion: provider.configVersion,
        state,
        nonce,
        codeVerifier,
        expiresAt: raw('now() + make_interval(mins => ?)', [SIGN_IN_MINUTES]),
      }),
    );
    return { url, state };
  };
}
