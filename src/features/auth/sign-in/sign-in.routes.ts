import { z } from 'zod';
import { route, type RouteGroup } from '../../../platform/http/route.ts';
import type { AcceptanceParts } from './accept-invitation.service.ts';
import { LoginRequest, LoginResponse, Me, RefreshRequest, SignedIn, Tokens } from './sign-in.schema.ts';
import { describeMe, type AuthService } from './sign-in.service.ts';
import { MfaStepUp, MfaVerification } from '../mfa/mfa.schema.ts';
import type { SecondFactor } from '../mfa/mfa.service.ts';
import { passwordRoutes } from '../password/password.routes.ts';
import type { PasswordParts } from '../password/password.service.ts';
import { REFRESH_COOKIE, refreshCookie } from '../sessions/refresh-cookie.ts';
import type { TokenLimits } from '../sign-in-limits.ts';

export function authRoutes({
  auth,
  secondFactor,
  secureCookies,
  tokenLimits,
  ...parts
}: PasswordParts &
  Omit<AcceptanceParts, 'auth'> & {
    auth: AuthService;
    secondFactor: Pick<SecondFactor, 'proveForStepUp'>;
    secureCookies: boolean;
    tokenLimits: TokenLimits;
  }): RouteGroup {
  const cookie = refreshCookie({ secureCookies });

  return {
    name: 'Sign-in',
    description: 'Sign-in, passwords and sessions of users.',
    routes: [
      route({
        method: 'post',
        path: '/auth/login',
        summary: 'Sign in with e-mail address and password',
        description:
          'Sets the refresh cookie `svc_refresh`. A user with a second factor receives a token for POST /auth/mfa/verify instead. If single sign-on is enforced for the user, a correct password is refused with SSO_REQUIRED, and `details.loginUrl` is the address of the single sign-on.',
        access: 'public',
        unaudited: 'writes user.login or user.login.failed itself, because the user is not known before',
        body: LoginRequest,
        response: LoginResponse,
        errors: [
          'unauthenticated',
          'partner_inactive',
          'sso_required',
          'ip_not_allowed_at_sign_in',
          'rate_limited',
          'unavailable',
        ],
        handler: async ({ ctx, body, reply }) => {
          const result = await auth.login(ctx, body);
          if ('refreshToken' in result) cookie.set(reply, result.refreshToken);
          return result.answer;
        },
      }),
      route({
        method: 'post',
        path: '/auth/mfa/verify',
        summary: 'Finish a sign-in with the second factor',
        description:
          'Accepts a code of the authenticator app or a recovery code; each code works once. Sets the refresh cookie `svc_refresh`.',
        access: 'public',
        unaudited: 'writes user.login or user.login.failed itself, because the user is not known before',
        body: MfaVerification,
        response: SignedIn,
        errors: [
          'unauthenticated',
          'partner_inactive',
          'sso_required',
          'rate_limited',
          'not_found',
          'conflict',
        ],
        handler: async ({ ctx, body, reply }) => {
          const { answer, refreshToken } = await auth.verifySecondFactor(ctx, body);
          cookie.set(reply, refreshToken);
          return answer;
        },
      }),
      route({
        method: 'post',
        path: '/auth/mfa/step-up',
        summary: 'Add the second factor to your session',
        description:
          'For sessions that were opened without a second factor, as with single sign-on. Afterwards, routes that require a second factor accept the session.',
        access: 'person',
        body: MfaStepUp,
        response: Tokens,
        errors: ['conflict', 'rate_limited', 'unavailable'],
        prepare: ({ ctx, body }) => secondFactor.proveForStepUp(ctx, body),
        handler: async ({ ctx, prepared }) => ({
          ...(await auth.stepUp(ctx, prepared)),
          userId: ctx.caller.userId,
        }),
        audit: {
          action: 'user.mfa_step_up',
          resource: 'user',
          note: ({ userId }) => ({ resourceId: userId }),
        },
      }),
      route({
        method: 'post',
        path: '/auth/refresh',
        summary: 'Exchange the refresh token for a new access token',
        description:
          'The refresh token comes in the cookie `svc_refresh`, or in the body from clients without cookies, which also receive the next one in the body. A refresh token that is used again after more than 10 seconds ends its whole session.',
        access: 'public',
        before: tokenLimits.refresh,
        unaudited: 'continues a session whose sign-in is audited',
        body: RefreshRequest,
        response: z.object({ tokens: Tokens, refreshToken: z.string().optional() }),
        errors: ['unauthenticated', 'partner_inactive', 'rate_limited'],
        handler: async ({ ctx, body, cookies, reply }) => {
          const { answer, refreshToken } = await auth.refresh(
            ctx,
            body.refreshToken ?? cookies[REFRESH_COOKIE],
          );
          if (body.refreshToken !== undefined) return { ...answer, refreshToken };
          cookie.set(reply, refreshToken);
          return answer;
        },
      }),
      route({
        method: 'post',
        path: '/auth/logout',
        summary: 'End the session of the cookie or of the access token',
        access: 'public',
        before: tokenLimits.logout,
        unaudited: 'writes user.logout itself, because the user is not known before',
        errors: ['rate_limited'],
        response: z.object({ success: z.literal(true) }),
        handler: async ({ ctx, cookies, bearer, reply }) => {
          const answer = await auth.logout(ctx, {
            refreshToken: cookies[REFRESH_COOKIE],
            accessToken: bearer,
          });
          cookie.clear(reply);
          return answer;
        },
      }),
      route({
        method: 'get',
        path: '/auth/me',
        summary: 'Read the signed-in user and their permissions',
        access: 'signed-in',
        response: Me,
        handler: ({ ctx }) => describeMe(ctx),
      }),
      ...passwordRoutes({ auth, tokenLimits, ...parts }, cookie),
    ],
  };
}
