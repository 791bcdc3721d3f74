import type { Mac } from '../../../platform/secrets/mac.ts';
import type { Reply } from '../../../platform/http/route.ts';

const NAME = 'svc_sso_state';
const CALLBACK_PATH = '/api/v1/sso/callback';
export const SIGN_IN_MINUTES = 10;

/**
 * The cookie that binds a sign-in to the browser that began it (SPEC 4.8). It contains a signature of the state.
 * Without this cookie, an attacker could send a person a link that signs the person in to the attacker's account.
 */
export type StateCookie = ReturnType<typeof stateCookie>;

export function stateCookie({ mac, secureCookies }: { mac: Mac; secureCookies: boolean }) {
  const write = (reply: Reply, value: string, minutes: number) =>
    reply.cookie(NAME, value, {
      path: CALLBACK_PATH,
      maxAgeMs: minutes * 60_000,
      secure: secureCookies,
      // The identity provider's site redirects to the callback, and browsers do not send strict cookies then.
      sameSite: 'lax',
    });
  return {
    set: (reply: Reply, state: string) => write(reply, mac.sign(state), SIGN_IN_MINUTES),
    clear: (reply: Reply) => write(reply, '', 0),
    /** Whether the cookies come from the browser that began the sign-in with this state. */
    isFrom: (cookies: Readonly<Record<string, string | undefined>>, state: string) =>
      mac.isSignatureOf(state, cookies[NAME] ?? ''),
  };
}
