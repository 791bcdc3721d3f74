import { createHash, createSecretKey } from 'node:crypto';
import jwt from 'jsonwebtoken';
import { z } from 'zod';
import { SCOPES, type Scope } from '../../../platform/db/tenant-scope.ts';
import { AppError } from '../../../platform/errors.ts';

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
export type Claims = z.infer<typeof Claims>;

export interface AccessTokenSubject {
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
