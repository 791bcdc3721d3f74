import type { Db } from '../../platform/db/pool.ts';
import type { Caller, ClientInfo } from '../../platform/context.ts';
import type { Authenticator } from '../../platform/http/authentication.ts';
import { TOKEN_PREFIX } from '../../platform/secrets/tokens.ts';
import type { Logger } from '../../platform/logger.ts';
import { failClosed, loadCaller, REFRESH_DAYS } from './session.service.ts';
import { createHash, createSecretKey } from 'node:crypto';
import jwt from 'jsonwebtoken';
import { z } from 'zod';
import { SCOPES, type Scope } from '../../platform/db/tenant-scope.ts';
import { AppError } from '../../platform/errors.ts';
import type { Reply } from '../../platform/http/route.ts';
import { clock, DAY_MS } from '../../clock.ts';
import { addressList, contains } from '../../platform/http/client-address.ts';

export const ACCESS_TOKEN_SECONDS = 900;

const ISSUER = 'muster';

const AUDIENCE = 'muster-api';

const Claims = z.object({
  sub: z.uuid(),
  sid: z.uuid(),
  scope: z.enum(SCOPES),
  /** When the token ends, in seconds. */
  exp: z.number(),
});
type Claims = z.infer<typeof Claims>;

interface AccessTokenSubject {
  userId: string;
  sessionId: string;
  scope: Scope;
  partnerId: string | null;
  orgId: string | null;
  roleId: string;
  mfa: boolean;
}

/** Signs and verifies access tokens (HS256, 15 minutes). A token names the session; its rights are read from the database on
 * each request, so a change takes effect at once. */
export interface AccessTokens {
  issue(subject: AccessTokenSubject): string;
  /** Throws `unauthenticated`. */
  verify(token: string): Claims;
  /** The session that one of our tokens names, expired or not; `undefined` for other tokens. */
  sessionOf(token: string): string | undefined;
}

export function createAccessTokens(secret: string): AccessTokens {
  // Given a string, jsonwebtoken first tries to parse it as PEM each time: a fifth of a request's time.
  const key = createSecretKey(secret, 'utf8');
  const kid = createHash('sha256').update(secret).digest('hex').slice(0, 8);
  const checks = { algorithms: ['HS256' as const], issuer: ISSUER, audience: AUDIENCE };
  return {
    issue(subject) {
      const claims = {
        sid: subject.sessionId,
        scope: subject.scope,
        roleId: subject.roleId,
        mfa: subject.mfa,
        ...(subject.partnerId === null ? {} : { partnerId: subject.partnerId }),
        ...(subject.orgId === null ? {} : { orgId: subject.orgId }),
      };
      return jwt.sign(claims, key, {
        algorithm: 'HS256',
        keyid: kid,
        subject: subject.userId,
        issuer: ISSUER,
        audience: AUDIENCE,
        expiresIn: ACCESS_TOKEN_SECONDS,
      });
    },
    verify(token) {
      try {
        return Claims.parse(jwt.verify(token, key, checks));
      } catch (error) {
        const expired = error instanceof jwt.TokenExpiredError;
        throw new AppError(
          'unauthenticated',
          expired ? 'The access token has expired.' : 'The access token is not valid.',
          { cause: error },
        );
      }
    },
    sessionOf(token) {
      try {
        return Claims.parse(jwt.verify(token, key, { ...checks, ignoreExpiration: true })).sid;
      } catch {
        // Signing out with an unknown token ends no session.
        return undefined;
      }
    },
  };
}

/** Identifies the caller by a bearer token, for the HTTP pipeline and the dashboard sockets. */
export function createAuthenticator({
  db,
  accessTokens,
  apiKeys,
  log,
}: {
  db: Db;
  accessTokens: AccessTokens;
  apiKeys: { authenticate(key: string): Promise<Caller> };
  log: Logger;
}): Authenticator {
  const callerOf = async (bearer: string): Promise<Caller> => {
    if (bearer.startsWith(TOKEN_PREFIX.apiKey)) return apiKeys.authenticate(bearer);
    const { sid, exp } = accessTokens.verify(bearer);
    return { ...(await loadCaller(db, sid)), validUntil: new Date(exp * 1000) };
  };
  return {
    async authenticate(bearer, client) {
      const caller = await callerOf(bearer).catch(failClosed);
      assertAddressAllowed(caller, client, log, 'request');
      return caller;
    },
  };
}

/**
 * Looks up the rights that a caller has now, also after the access token has expired: for an answer that is still being
 * sent. Throws if the caller has none any more.
 */
export function createRightsLookup({
  db,
  apiKeys,
}: {
  db: Db;
  apiKeys: { authenticate(key: string): Promise<Caller> };
}): (caller: Caller, bearer: string) => Promise<Caller> {
  return ({ sessionId }, bearer) =>
    (sessionId === null ? apiKeys.authenticate(bearer) : loadCaller(db, sessionId)).catch(failClosed);
}

export const REFRESH_COOKIE = 'svc_refresh';

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

/** The addresses that a partner's users may connect from (SPEC 5.8). */

const WARN_EVERY_MS = 60_000;

/** By partner; cleared when it grows too large, so that a partner may be warned about again. */
const warnedAt = new Map<string | null, number>();

const WARNED_MAX = 1000;

/**
 * Throws IP_NOT_ALLOWED for an address that is not on the list of the caller's partner: 401 before tokens are issued,
 * 403 on a request. An address that cannot be trusted passes, with a warning once a minute for each partner (SPEC 5.8). One
 * that a trusted proxy names in a form that cannot be read does not pass: a client that hides its address would get past the list.
 */
export function assertAddressAllowed(
  caller: Caller,
  client: ClientInfo,
  log: Logger,
  at: 'sign-in' | 'request',
): void {
  if (caller.ipAllowlist.length === 0) return;
  const code = at === 'sign-in' ? 'ip_not_allowed_at_sign_in' : 'ip_not_allowed';
  if (client.unreadable !== undefined) {
    const { header } = client.unreadable;
    throw new AppError(
      code,
      `Your IP address is not allowed for this account: the proxy names it in ${header} in a form that cannot be read.`,
    );
  }
  if (!client.trusted) {
    const { partnerId } = caller;
    if (clock.monotonic() - (warnedAt.get(partnerId) ?? Number.NEGATIVE_INFINITY) > WARN_EVERY_MS) {
      if (warnedAt.size >= WARNED_MAX) warnedAt.clear();
      warnedAt.set(partnerId, clock.monotonic());
      log.warn({ partnerId, ip: client.ip }, 'auth.ip_allowlist_not_enforced');
    }
    return;
  }
  if (contains(listOf(caller.ipAllowlist), client.ip)) return;
  throw new AppError(code, 'Your IP address is not allowed for this account.');
}

/** Compiled lists. */
const compiled = new Map<string, ReturnType<typeof addressList>>();

const COMPILED_MAX = 500;

function listOf(entries: readonly string[]): ReturnType<typeof addressList> {
  const key = entries.join(' ');
  const known = compiled.get(key);
  if (known !== undefined) return known;
  if (compiled.size >= COMPILED_MAX) compiled.clear();
  const list = compile(entries);
  compiled.set(key, list);
  return list;
}

function compile(entries: readonly string[]): ReturnType<typeof addressList> {
  try {
    return addressList(entries);
  } catch (error) {
    return failClosed(error);
  }
}
