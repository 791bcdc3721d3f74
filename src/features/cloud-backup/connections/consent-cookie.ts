import type { Reply } from '../../../platform/http/route.ts';
import type { Mac } from '../../../platform/secrets/mac.ts';

const NAME = 'svc_c2c_state';
const PATH = '/api/v1/c2c/m365/callback';
export const CONSENT_MINUTES = 15;

export type ConsentCookie = ReturnType<typeof consentCookie>;

/** Binds a consent to the browser that began it, as the cookie of single sign-on does. */
export function consentCookie({ mac, secureCookies }: { mac: Mac; secureCookies: boolean }) {
  const write = (reply: Reply, value: string, minutes: number) =>
    reply.cookie(NAME, value, {
      path: PATH,
      maxAgeMs: minutes * 60_000,
      secure: secureCookies,
      sameSite: 'lax',
    });
  return {
    set: (reply: Reply, state: string) => write(reply, mac.sign(state), CONSENT_MINUTES),
    clear: (reply: Reply) => write(reply, '', 0),
    isFrom: (cookies: Readonly<Record<string, string | undefined>>, state: string) =>
      mac.isSignatureOf(state, cookies[NAME] ?? ''),
  };
}
