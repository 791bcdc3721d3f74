import { byRules, cascade } from '../../platform/db/retention/retention-rule.ts';
import { defineFeature } from '../feature.ts';
import { authRoutes } from './sign-in/sign-in.routes.ts';
import { mfaRoutes } from './mfa/mfa.routes.ts';
import { addForgottenPasswordJob } from './password/forgotten-password.ts';
import { authRetention } from './retention.ts';

export { SignInTrail } from './sign-in-trail.ts';
export { ACCESS_TOKEN_SECONDS, createAccessTokens, type AccessTokens } from './sessions/access-token.ts';
export { SignedIn } from './sign-in/sign-in.schema.ts';
export type { PasswordPolicy } from './password/password-policy.ts';
export { passwordFault } from './password/password-rules.ts';
export { refreshCookie } from './sessions/refresh-cookie.ts';
export { signInLimits, type SignInLimits, tokenLimits } from './sign-in-limits.ts';
export { authService, type AuthService } from './sign-in/sign-in.service.ts';
export { createAuthenticator, createRightsLookup } from './sessions/authenticator.ts';
export { createSecondFactor } from './mfa/mfa.service.ts';
export { endEverySession } from './sessions/session.queries.ts';
export { assertAddressAllowed } from './sessions/ip-allowlist.ts';
export {
  findCaller,
  holdSession,
  loadUserRights,
  openSession,
  type SessionCaller,
  type UserRights,
} from './sessions/session.service.ts';

export const feature = defineFeature({
  name: 'auth',
  routes: (parts: Parameters<typeof authRoutes>[0] & Parameters<typeof mfaRoutes>[0]) => [
    authRoutes(parts),
    mfaRoutes(parts),
  ],
  jobs: addForgottenPasswordJob,
  tables: [
    ...byRules(authRetention),
    cascade('user_mfa', 'users'),
    // A person has ten, which are replaced together.
    cascade('mfa_recovery_codes', 'user_mfa'),
  ],
});
