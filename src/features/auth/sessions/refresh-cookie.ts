import type { Reply } from '../../../platform/http/route.ts';
import { REFRESH_DAYS } from './session.service.ts';

export const REFRESH_COOKIE = 'svc_refresh';
const DAY_MS = 86_400_000;

/** The cookie that carries the refresh token: scripts cannot read it, and only the sign-in routes get it. */
export type RefreshCookie = ReturnType<typeof refreshCookie>;

export function refreshCookie({ secureCookies }: { secureCookies: boolean }) {
  const write = (reply: Reply, value: string, maxAgeMs: number) =>
    reply.cookie(REFRESH_COOKIE, value, { path: '/api/v1/auth', maxAgeMs, secure: secureCookies });
  return {
    set: (reply: Reply, value: string) => write(reply, value, REFRESH_DAYS * DAY_MS),
    clear: (reply: Reply) => write(reply, '', 0),
  };
}
