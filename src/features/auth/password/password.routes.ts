import { z } from 'zod';
import { IdParams } from '../../../platform/http/fields.ts';
import { PageQuery, pageOf } from '../../../platform/http/pagination.ts';
import { route, type AnyRoute } from '../../../platform/http/route.ts';
import {
  AcceptInvitation,
  ForgottenPassword,
  InvitationPreview,
  InvitationToken,
  LoginResponse,
  OwnSession,
  PasswordChange,
  PasswordReset,
} from '../sign-in/sign-in.schema.ts';
import { endOtherSessions, endOwnSession, listOwnSessions } from '../sessions/own-session.service.ts';
import {
  acceptInvitation,
  type AcceptanceParts,
  previewInvitation,
} from '../sign-in/accept-invitation.service.ts';
import { forgotPassword } from './forgotten-password.ts';
import { changePassword, resetPassword, type PasswordParts } from './password.service.ts';
import type { RefreshCookie } from '../sessions/refresh-cookie.ts';
import type { TokenLimits } from '../sign-in-limits.ts';

const Success = z.object({ success: z.literal(true) });

/** Invitations, passwords and sessions of users. */
export function passwordRoutes(
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
