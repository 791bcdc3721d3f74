import { byRules, cascade } from '../../platform/db/retention-rule.ts';
import { defineFeature } from '../feature.ts';
import { authRoutes, mfaRoutes } from './auth.routes.ts';
import { passkeyRoutes } from './passkey.routes.ts';
import { addForgottenPasswordJob } from './password.service.ts';
import { authRetention } from './auth.model.ts';

export { SignInTrail } from './sign-in-trail.ts';
export {
  ACCESS_TOKEN_SECONDS,
  createAccessTokens,
  type AccessTokens,
  refreshCookie,
  createAuthenticator,
  createRightsLookup,
  assertAddressAllowed,
} from './authenticator.ts';
export { SignedIn } from './auth.schema.ts';
export { type PasswordPolicy, passwordFault } from './password.service.ts';
export { signInLimits, type SignInLimits, tokenLimits } from './sign-in-limits.ts';
export { authService, type AuthService } from './sign-in.service.ts';
export { createSecondFactor } from './mfa.service.ts';
export { createPasskeys } from './passkey.service.ts';
export { createPasskeyCeremonies } from './passkey-ceremonies.ts';
export { endEverySession } from './auth.queries.ts';
export {
  findCaller,
  assertFreshSecondFactor,
  lockOpenSession,
  loadUserRights,
  openSession,
  type SessionCaller,
  type UserRights,
} from './session.service.ts';

export const feature = defineFeature({
  name: 'auth',
  routes: (parts: Parameters<typeof authRoutes>[0] & Parameters<typeof mfaRoutes>[0]) => [
    authRoutes(parts),
    mfaRoutes(parts),
    passkeyRoutes(parts),
  ],
  jobs: addForgottenPasswordJob,
  tables: [
    ...byRules(authRetention),
    cascade('user_mfa', 'users'),
    cascade('passkeys', 'users'),
    // A person has ten, which are replaced together.
    cascade('mfa_recovery_codes', 'user_mfa'),
  ],
});
