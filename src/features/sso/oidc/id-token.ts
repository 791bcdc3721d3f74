import { timingSafeEqual } from 'node:crypto';
import { errors, type JWTVerifyGetKey, jwtVerify } from 'jose';
import { z } from 'zod';
import { clock } from '../../../clock.ts';
import { SsoFailure, type SsoFailureReason } from '../flow/sso-failure.ts';
import { SIGNING_ALGORITHMS } from './algorithms.ts';
import { Claims } from './claims.ts';
import type { OidcSettings } from './oidc-settings.ts';

/** How far the clocks of the provider and of this server may differ. */
export const TOLERANCE_SECONDS = 60;

const IdTokenClaims = Claims.extend({
  aud: z.union([z.string(), z.array(z.string())]),
  azp: z.string().optional(),
  iat: z.number(),
  nonce: z.string().optional(),
});

/**
 * Verifies an ID token (OpenID Connect Core 3.1.3.7), and returns its claims. Only keys of the provider's key set are
 * used, and never a key that the token contains or links to.
 * @throws SsoFailure
 */
export async function verifyIdToken(
  idToken: string,
  {
    issuer,
    clientId,
    nonce,
    keys,
  }: Pick<OidcSettings, 'issuer' | 'clientId'> & { nonce: string; keys: JWTVerifyGetKey },
): Promise<Claims> {
  const { payload } = await jwtVerify(idToken, keys, {
    issuer,
    audience: clientId,
    algorithms: [...SIGNING_ALGORITHMS],
    requiredClaims: ['sub', 'iat', 'exp'],
    clockTolerance: TOLERANCE_SECONDS,
  }).catch((error: unknown) => {
    throw tokenFailure('the ID token', error);
  });
  const { data: claims, error } = IdTokenClaims.safeParse(payload);
  if (error !== undefined) {
    throw new SsoFailure('answer_invalid', `the ID token: ${error.issues[0]?.path.join('.')}`);
  }
  const isForSeveral = Array.isArray(claims.aud) && claims.aud.length > 1;
  if (claims.azp === undefined ? isForSeveral : claims.azp !== clientId) {
    throw new SsoFailure('audience_mismatch', 'the ID token was issued to another client');
  }
  if (claims.iat > clock.now() / 1000 + TOLERANCE_SECONDS) {
    throw new SsoFailure('answer_expired', 'the ID token was issued in the future');
  }
  if (!isSame(claims.nonce, nonce)) throw new SsoFailure('nonce_mismatch');
  return claims;
}

/**
 * Why jose has refused a signed token. Unusable keys of a provider, such as short ones, make it throw errors of other
 * classes than its own.
 */
export function tokenFailure(name: string, error: unknown): SsoFailure {
  if (error instanceof SsoFailure) return error;
  return new SsoFailure(reasonOf(error), `${name}: ${String(error)}`, { cause: error });
}

function reasonOf(error: unknown): SsoFailureReason {
  if (error instanceof errors.JWTExpired) return 'answer_expired';
  if (error instanceof errors.JOSEAlgNotAllowed) return 'algorithm_not_allowed';
  if (!(error instanceof errors.JWTClaimValidationFailed)) return 'signature_invalid';
  if (error.claim === 'iss') return 'issuer_mismatch';
  if (error.claim === 'aud') return 'audience_mismatch';
  return error.claim === 'nbf' ? 'answer_expired' : 'answer_invalid';
}

function isSame(given: string | undefined, expected: string): boolean {
  const [a, b] = [Buffer.from(given ?? ''), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
}
