import { z } from 'zod';
import { route, type RouteGroup } from '../../../platform/http/route.ts';
import { MfaConfirmation, MfaEnabling, MfaSecret, MfaSetup, RecoveryCodes } from './mfa.schema.ts';
import type { SecondFactor } from './mfa.service.ts';

const Success = z.object({ success: z.literal(true) });

export function mfaRoutes({ secondFactor }: { secondFactor: SecondFactor }): RouteGroup {
  return {
    name: 'Second factor',
    description: 'The second factor of your account: codes of an authenticator app.',
    routes: [
      route({
        method: 'post',
        path: '/auth/mfa/setup',
        summary: 'Set up a second factor: get a secret for the authenticator app and ten recovery codes',
        description:
          'Sign-in does not require the second factor until POST /auth/mfa/enable confirms that the app works.',
        access: 'person',
        unaudited: 'has no effect until it is enabled, which is audited',
        transaction: false,
        body: MfaSetup,
        response: MfaSecret,
        errors: ['conflict', 'rate_limited', 'unavailable'],
        handler: ({ ctx, body }) => secondFactor.setUp(ctx, body),
      }),
      route({
        method: 'post',
        path: '/auth/mfa/enable',
        summary: 'Enable the second factor with a first code of the authenticator app',
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
        summary: 'Disable the second factor',
        access: 'person',
        body: MfaConfirmation,
        response: Success,
        errors: ['conflict', 'rate_limited', 'unavailable'],
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
        errors: ['conflict', 'rate_limited', 'unavailable'],
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
