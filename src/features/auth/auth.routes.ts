import { z } from 'zod';
import { route, type RouteGroup, type AnyRoute } from '../../platform/http/route.ts';
import {
  type AcceptanceParts,
  describeMe,
  type AuthService,
  acceptInvitation,
  previewInvitation,
} from './sign-in.service.ts';
import {
  LoginRequest,
  LoginResponse,
  Me,
  RefreshRequest,
  SignedIn,
  Tokens,
  MfaStepUp,
  MfaVerification,
  AcceptInvitation,
  ForgottenPassword,
  InvitationPreview,
  InvitationToken,
  OwnSession,
  PasswordChange,
  PasswordReset,
  MfaConfirmation,
  MfaEnabling,
  MfaSecret,
  MfaSetup,
  RecoveryCodes,
  SecondFactors,
} from './auth.schema.ts';
import type { SecondFactor } from './mfa.service.ts';
import { type PasskeyRouteParts, passkeySignInRoutes } from './passkey.routes.ts';
import { type PasswordParts, forgotPassword, changePassword, resetPassword } from './password.service.ts';
import { REFRESH_COOKIE, refreshCookie, type RefreshCookie } from './authenticator.ts';
import type { TokenLimits } from './sign-in-limits.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { PageQuery, pageOf } from '../../platform/http/pagination.ts';
import { endOtherSessions, endOwnSession, listOwnSessions } from './session.service.ts';

export function authRoutes({
  auth,
  passkeys,
  secondFactor,
  secureCookies,
  tokenLimits,
  ...parts
}: PasswordParts &
  Omit<AcceptanceParts, 'auth'> &
  Pick<PasskeyRouteParts, 'passkeys'> & {
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
      ...passkeySignInRoutes({ auth, passkeys, tokenLimits }, cookie),
      ...passwordRoutes({ auth, tokenLimits, ...parts }, cookie),
    ],
  };
}

const Success = z.object({ success: z.literal(true) });

/** Invitations, passwords and sessions of users. */
function passwordRoutes(
  parts: PasswordParts & AcceptanceParts & { tokenLimits: TokenLimits },
  cookie: RefreshCookie,
): AnyRoute[] {
  return [
    route({
      method: 'post',
      path: '/auth/invite/preview',
      summary: 'Read an invitation by its token',
      access: 'public',
      before: parts.tokenLimits.invitePreview,
      unaudited: 'only reads, by a secret that must not appear in a URL',
      body: InvitationToken,
      response: InvitationPreview,
      errors: ['not_found', 'rate_limited'],
      handler: ({ ctx, body }) => previewInvitation(ctx, body.token),
    }),
    route({
      method: 'post',
      path: '/auth/accept-invite',
      summary: 'Accept an invitation and sign in',
      description:
        'Sets the password of a new account. For an existing account, send the password of that account; if it has a second factor, finish with POST /auth/mfa/verify. The mailed link also proves the address; a person who uses it takes over an account whose address was never proved. If single sign-on is enforced for the new member, the invitation is accepted, and the response is SSO_REQUIRED with `details.loginUrl`. Sets the refresh cookie `svc_refresh`.',
      access: 'public',
      unaudited: 'the invitation is audited, and so is the sign-in at its end',
      body: AcceptInvitation,
      response: LoginResponse,
      errors: [
        'not_found',
        'conflict',
        'unauthenticated',
        'partner_inactive',
        'sso_required',
        'rate_limited',
        'unavailable',
      ],
      handler: async ({ ctx, body, reply }) => {
        const result = await acceptInvitation(ctx, body, parts);
        if ('refreshToken' in result) cookie.set(reply, result.refreshToken);
        return result.answer;
      },
    }),
    route({
      method: 'post',
      path: '/auth/forgot-password',
      summary: 'Request a link to set a new password',
      description:
        'The response is the same whether or not the address has an account. Users for whom single sign-on is enforced receive no mail, except break-glass people.',
      access: 'public',
      unaudited: 'must not reveal whether the address has an account, and changes nothing by itself',
      body: ForgottenPassword,
      response: Success,
      errors: ['rate_limited', 'unavailable'],
      handler: ({ ctx, body }) => forgotPassword(ctx, body.email, parts),
    }),
    route({
      method: 'post',
      path: '/auth/reset-password',
      summary: 'Set a new password with the mailed link',
      description:
        'Proves the address, and ends all sessions and API keys of the user. If the address was not proved before, the second factor is removed as well. Users for whom single sign-on is enforced are refused, except break-glass people.',
      access: 'public',
      before: parts.tokenLimits.resetPassword,
      unaudited: 'writes user.password.change itself, because the user is not known before',
      body: PasswordReset,
      response: Success,
      errors: ['sso_required', 'rate_limited'],
      handler: ({ ctx, body }) => resetPassword(ctx, body, parts),
    }),
    route({
      method: 'post',
      path: '/auth/change-password',
      summary: 'Change your password',
      description: 'Ends all your other sessions. API keys keep working.',
      access: 'person',
      unaudited: 'writes user.password.change itself, because it hashes between two transactions',
      transaction: false,
      body: PasswordChange,
      response: Success,
      errors: ['conflict', 'rate_limited', 'unavailable'],
      handler: ({ ctx, body }) => changePassword(ctx, body, parts),
    }),
    route({
      method: 'get',
      path: '/auth/sessions',
      summary: 'List your sessions, last used first',
      access: 'person',
      query: PageQuery,
      response: pageOf(OwnSession),
      handler: ({ ctx, query }) => listOwnSessions(ctx, query),
    }),
    route({
      method: 'delete',
      path: '/auth/sessions/:id',
      summary: 'End one of your sessions',
      access: 'person',
      params: IdParams,
      response: Success,
      handler: async ({ ctx, params }) => ({
        ...(await endOwnSession(ctx, params.id)),
        userId: ctx.caller.userId,
      }),
      audit: {
        action: 'user.session.end',
        resource: 'user',
        note: ({ userId }, { params }) => ({ resourceId: userId, details: { sessionId: params.id } }),
      },
    }),
    route({
      method: 'delete',
      path: '/auth/sessions',
      summary: 'End all your sessions except this one',
      access: 'person',
      response: z.object({ success: z.literal(true), ended: z.number().int() }),
      handler: async ({ ctx }) => ({ ...(await endOtherSessions(ctx)), userId: ctx.caller.userId }),
      audit: {
        action: 'user.session.end',
        resource: 'user',
        note: ({ userId, ended }) => ({ resourceId: userId, details: { ended } }),
      },
    }),
  ];
}

export function mfaRoutes({ secondFactor }: { secondFactor: SecondFactor }): RouteGroup {
  return {
    name: 'Second factor',
    description:
      'The second factors of your account: codes of an authenticator app, and recovery codes. Passkeys have routes of their own.',
    routes: [
      route({
        method: 'get',
        path: '/auth/mfa',
        summary: 'Read which second factors your account has',
        access: 'person',
        response: SecondFactors,
        handler: ({ ctx }) => secondFactor.describe(ctx),
      }),
      route({
        method: 'post',
        path: '/auth/mfa/setup',
        summary: 'Set up a second factor: get a secret for the authenticator app and ten recovery codes',
        description:
          'Sign-in does not require the second factor until POST /auth/mfa/enable confirms that the app works. If the account has passkeys, the session must have given a second factor in the last 15 minutes.',
        access: 'person',
        unaudited: 'has no effect until it is enabled, which is audited',
        transaction: false,
        body: MfaSetup,
        response: MfaSecret,
        errors: ['conflict', 'mfa_required', 'rate_limited', 'unavailable'],
        handler: ({ ctx, body }) => secondFactor.setUp(ctx, body),
      }),
      route({
        method: 'post',
        path: '/auth/mfa/enable',
        summary: 'Enable the authenticator app with a first code of it',
        access: 'person',
        body: MfaEnabling,
        response: Success,
        errors: ['conflict', 'rate_limited', 'unavailable'],
        prepare: ({ ctx, body }) => secondFactor.proveForEnabling(ctx, body),
        handler: async ({ ctx, prepared }) => ({
          ...(await secondFactor.enable(ctx, prepared)),
          userId: ctx.caller.userId,
        }),
        audit: {
          action: 'user.mfa_enable',
          resource: 'user',
          note: ({ userId }) => ({ resourceId: userId }),
        },
      }),
      route({
        method: 'post',
        path: '/auth/mfa/disable',
        summary: 'Disable the authenticator app',
        description: 'The recovery codes go with it, unless the account has passkeys.',
        access: 'person',
        body: MfaConfirmation,
        response: Success,
        errors: ['conflict', 'mfa_required', 'rate_limited', 'unavailable'],
        prepare: ({ ctx, body }) => secondFactor.proveForDisabling(ctx, body),
        handler: async ({ ctx, prepared }) => ({
          ...(await secondFactor.disable(ctx, prepared)),
          userId: ctx.caller.userId,
        }),
        audit: {
          action: 'user.mfa_disable',
          resource: 'user',
          note: ({ userId }) => ({ resourceId: userId }),
        },
      }),
      route({
        method: 'post',
        path: '/auth/mfa/recovery-codes',
        summary: 'Replace the recovery codes',
        access: 'person',
        body: MfaConfirmation,
        response: RecoveryCodes,
        errors: ['conflict', 'mfa_required', 'rate_limited', 'unavailable'],
        prepare: ({ ctx, body }) => secondFactor.proveForRenewal(ctx, body),
        handler: async ({ ctx, prepared }) => ({
          ...(await secondFactor.renewRecoveryCodes(ctx, prepared)),
          userId: ctx.caller.userId,
        }),
        audit: {
          action: 'user.mfa_recovery_codes',
          resource: 'user',
          note: ({ userId }) => ({ resourceId: userId }),
        },
      }),
    ],
  };
}
