import { z } from 'zod';
import { IdParams } from '../../platform/http/fields.ts';
import { type AnyRoute, route, type RouteGroup } from '../../platform/http/route.ts';
import { SignedIn, Tokens } from './auth.schema.ts';
import type { RefreshCookie } from './authenticator.ts';
import type { Passkeys } from './passkey.service.ts';
import {
  AddedPasskey,
  CreationOptions,
  NewPasskey,
  Passkey,
  PasskeyChallenge,
  PasskeyChange,
  PasskeySignIn,
  PasskeyStart,
  PasskeyVerification,
  RequestOptions,
} from './passkey.schema.ts';
import type { TokenLimits } from './sign-in-limits.ts';
import type { AuthService } from './sign-in.service.ts';

export interface PasskeyRouteParts {
  auth: Pick<AuthService, 'signInByPasskey' | 'verifyPasskey' | 'stepUpByPasskey'>;
  passkeys: Passkeys;
  tokenLimits: Pick<TokenLimits, 'passkeyChallenge'>;
}

/** The caller's own passkeys. */
export function passkeyRoutes({ passkeys }: Pick<PasskeyRouteParts, 'passkeys'>): RouteGroup {
  return {
    name: 'Passkeys',
    description:
      'The passkeys of your account (WebAuthn). A passkey signs you in without a password, and is a second factor.',
    routes: [
      route({
        method: 'get',
        path: '/auth/passkeys',
        summary: 'List your passkeys, the oldest first',
        access: 'person',
        response: z.object({ data: z.array(Passkey) }),
        handler: ({ ctx }) => passkeys.list(ctx),
      }),
      route({
        method: 'post',
        path: '/auth/passkeys/options',
        summary: 'Begin to register a passkey',
        description:
          'If the account has a second factor, the session must have given it in the last 15 minutes. Otherwise the password is required, as for an authenticator app.',
        access: 'person',
        unaudited: 'has no effect until the passkey is registered, which is audited',
        transaction: false,
        body: PasskeyStart,
        response: CreationOptions,
        errors: ['conflict', 'mfa_required', 'rate_limited', 'unavailable'],
        handler: ({ ctx, body }) => passkeys.beginRegistration(ctx, body),
      }),
      route({
        method: 'post',
        path: '/auth/passkeys',
        summary: 'Register a passkey',
        description:
          'With the answer of the authenticator to POST /auth/passkeys/options. The first second factor of an account comes with ten recovery codes, and from then on a password alone does not open a session. A mail to the person reports the new passkey.',
        access: 'person',
        status: 201,
        body: NewPasskey,
        response: AddedPasskey,
        errors: ['conflict', 'mfa_required', 'rate_limited', 'unavailable'],
        prepare: ({ ctx, body }) => passkeys.checkNew(ctx, body),
        handler: async ({ ctx, body, prepared }) => ({
          ...(await passkeys.add(ctx, body.name, prepared)),
          userId: ctx.caller.userId,
        }),
        audit: {
          action: 'user.passkey_add',
          resource: 'user',
          note: ({ userId, passkey: { id, name, synced } }) => ({
            resourceId: userId,
            details: { passkeyId: id, name, synced },
          }),
        },
      }),
      route({
        method: 'patch',
        path: '/auth/passkeys/:id',
        summary: 'Rename one of your passkeys',
        access: 'person',
        params: IdParams,
        body: PasskeyChange,
        response: Passkey,
        handler: ({ ctx, params, body }) => passkeys.rename(ctx, params.id, body),
        audit: {
          action: 'user.passkey_rename',
          resource: 'user',
          note: ({ id, userId }) => ({ resourceId: userId, details: { passkeyId: id } }),
        },
      }),
      route({
        method: 'delete',
        path: '/auth/passkeys/:id',
        summary: 'Remove one of your passkeys',
        description:
          'The session must have given the second factor in the last 15 minutes. All your other sessions end. With your last second factor your recovery codes go as well; the last break-glass person of a partner cannot remove it. A mail to the person reports the removal.',
        access: 'person',
        params: IdParams,
        response: z.object({ success: z.literal(true) }),
        errors: ['conflict', 'mfa_required'],
        handler: async ({ ctx, params }) => ({
          success: true as const,
          passkey: await passkeys.remove(ctx, params.id),
        }),
        audit: {
          action: 'user.passkey_remove',
          resource: 'user',
          note: ({ passkey: { id, userId, name } }) => ({
            resourceId: userId,
            details: { passkeyId: id, name },
          }),
        },
      }),
    ],
  };
}

/** A passkey as a sign-in of its own. */
export function passkeySignInRoutes(
  { auth, passkeys, tokenLimits }: PasskeyRouteParts,
  cookie: RefreshCookie,
): AnyRoute[] {
  return [
    route({
      method: 'post',
      path: '/auth/passkeys/sign-in-options',
      summary: 'Begin a sign-in with a passkey',
      description:
        'The answer is the same for everyone. The browser offers the passkeys that the person has for this server.',
      access: 'public',
      before: tokenLimits.passkeyChallenge,
      unaudited: 'has no effect until the passkey signs the person in, which is audited',
      response: RequestOptions,
      errors: ['rate_limited'],
      handler: () => passkeys.beginSignIn(),
    }),
    route({
      method: 'post',
      path: '/auth/passkeys/sign-in',
      summary: 'Sign in with a passkey',
      description:
        'The authenticator must have verified its user, so the session has a second factor from the beginning. If single sign-on is enforced for the user, the passkey is refused as a password is, with SSO_REQUIRED and `details.loginUrl`. Sets the refresh cookie `svc_refresh`.',
      access: 'public',
      unaudited: 'writes user.login or user.login.failed itself, because the user is not known before',
      body: PasskeySignIn,
      response: SignedIn,
      errors: [
        'unauthenticated',
        'partner_inactive',
        'sso_required',
        'ip_not_allowed_at_sign_in',
        'rate_limited',
        'unavailable',
      ],
      handler: async ({ ctx, body, reply }) => {
        const { answer, refreshToken } = await auth.signInByPasskey(ctx, body);
        cookie.set(reply, refreshToken);
        return answer;
      },
    }),
    ...passkeyFactorRoutes({ auth, passkeys, tokenLimits }, cookie),
  ];
}

/** A passkey as a second factor, behind a password and for a session. */
function passkeyFactorRoutes(
  { auth, passkeys, tokenLimits }: PasskeyRouteParts,
  cookie: RefreshCookie,
): AnyRoute[] {
  return [
    route({
      method: 'post',
      path: '/auth/mfa/passkey-options',
      summary: 'Begin to finish a sign-in with a passkey as the second factor',
      access: 'public',
      before: tokenLimits.passkeyChallenge,
      unaudited: 'has no effect until the passkey finishes the sign-in, which is audited',
      body: PasskeyChallenge,
      response: RequestOptions,
      errors: ['unauthenticated', 'conflict', 'rate_limited'],
      handler: ({ ctx, body }) => passkeys.beginSecondFactor(ctx, body),
    }),
    route({
      method: 'post',
      path: '/auth/mfa/passkey-verify',
      summary: 'Finish a sign-in with a passkey as the second factor',
      description:
        'Counts as an attempt at the second factor, together with those by code. Sets the refresh cookie `svc_refresh`.',
      access: 'public',
      unaudited: 'writes user.login or user.login.failed itself, because the user is not known before',
      body: PasskeyVerification,
      response: SignedIn,
      errors: [
        'unauthenticated',
        'partner_inactive',
        'sso_required',
        'ip_not_allowed_at_sign_in',
        'rate_limited',
        'not_found',
        'conflict',
      ],
      handler: async ({ ctx, body, reply }) => {
        const { answer, refreshToken } = await auth.verifyPasskey(ctx, body);
        cookie.set(reply, refreshToken);
        return answer;
      },
    }),
    route({
      method: 'post',
      path: '/auth/mfa/step-up-options',
      summary: 'Begin to add the second factor to your session with a passkey',
      access: 'person',
      unaudited: 'has no effect until the passkey is used, which is audited',
      transaction: false,
      response: RequestOptions,
      errors: ['conflict'],
      handler: ({ ctx }) => passkeys.beginStepUp(ctx),
    }),
    route({
      method: 'post',
      path: '/auth/mfa/step-up-passkey',
      summary: 'Add the second factor to your session with a passkey',
      description: 'As POST /auth/mfa/step-up with a code. The authenticator must have verified its user.',
      access: 'person',
      body: PasskeySignIn,
      response: Tokens,
      errors: ['conflict', 'rate_limited', 'unavailable'],
      prepare: ({ ctx, body }) => passkeys.proveForStepUp(ctx, body),
      handler: async ({ ctx, prepared }) => ({
        ...(await auth.stepUpByPasskey(ctx, prepared)),
        userId: ctx.caller.userId,
        passkeyId: prepared.passkey.id,
      }),
      audit: {
        action: 'user.mfa_step_up',
        resource: 'user',
        note: ({ userId, passkeyId }) => ({ resourceId: userId, details: { passkeyId } }),
      },
    }),
  ];
}
