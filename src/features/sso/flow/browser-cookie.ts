import { randomBytes } from 'node:crypto';
import type { Reply } from '../../../platform/http/route.ts';
import { tokenHash } from '../../../platform/secrets/tokens.ts';
import { SIGN_IN_MINUTES } from './state-cookie.ts';

const NAME = 'svc_sso_browser';
const VALUE = /^[\w-]{43}$/;

type Cookies = Readonly<Record<string, string | undefined>>;

/**
 * The cookie that binds the code of a sign-in to the browser that has come back from the identity provider. Without it,
 * an attacker could send a person a link with the code of the attacker's own sign-in.
 */
export type BrowserCookie = ReturnType<typeof browserCookie>;

export function browserCookie({ secureCookies }: { secureCookies: boolean }) {
  const hashIn = (cookies: Cookies): string | undefined => {
    const value = cookies[NAME];
    return value !== undefined && VALUE.test(value) ? tokenHash(value) : undefined;
  };
  return {
    /** The hash of the browser's cookie. Sets a new one if the browser has none; several sign-ins at once share it. */
    mark(reply: Reply, cookies: Cookies): string {
      const known = hashIn(cookies);
      if (known !== undefined) return known;
      const value = randomBytes(32).toString('base64url');
      reply.cookie(NAME, value, {
        path: '/api/v1/sso',
        maxAgeMs: SIGN_IN_MINUTES * 60_000,
        secure: secureCookies,
        // The identity provider's site redirects to the callback, and browsers do not send strict cookies then.
        sameSite: 'lax',
      });
      return tokenHash(value);
    },
    hashIn,
  };
}
