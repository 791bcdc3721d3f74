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
import { changePassword, forgotPassword, resetPassword, type PasswordParts } from './password.service.ts';
import type { RefreshCookie } from '../sessions/refresh-cookie.ts';

const Success = z.object({ success: z.literal(true) });

/** How people come to a password, change it and end their sessions. */
export function passwordRoutes(parts: PasswordParts & AcceptanceParts, cookie: RefreshCookie): AnyRoute[] {
  return [
    route({
      method: 'post',
      path: '/auth/invite/preview',
      summary: 'Who is invited, and where to',
      access: 'public',
      unaudited: 'reads by a secret that has no place in an address',
      body: InvitationToken,
      response: InvitationPreview,
      errors: ['not_found'],
      handler: ({ ctx, body }) => previewInvitation(ctx, body.token),
    }),
    route({
      method: 'post',
      path: '/auth/accept-invite',
      summary: 'Accept an invitation and sign in',
      description:
        'Sets the password of a new account. The holder of an account proves it: with its password, and with the second factor at POST /auth/mfa/verify where there is one. The link of the mail also proves the address; an account whose address nobody has proved before goes to whoever accepts by it. Sets the refresh cookie `svc_refresh`.',
      access: 'public',
      unaudited: 'the invitation is in the trail, and so is the sign-in that this ends in',
      body: AcceptInvitation,
      response: LoginResponse,
      errors: ['not_found', 'conflict', 'unauthenticated', 'partner_inactive', 'rate_limited', 'unavailable'],
      handler: async ({ ctx, body, reply }) => {
        const result = await acceptInvitation(ctx, body, parts);
        if ('refreshToken' in result) cookie.set(reply, result.refreshToken);
        return result.answer;
      },
    }),
    route({
      method: 'post',
      path: '/auth/forgot-password',
      summary: 'Ask for a link to set a new password',
      description: 'Answers the same whether or not someone has the address.',
      access: 'public',
      unaudited: 'must not tell whether anybody has the address, and changes nothing by itself',
      body: ForgottenPassword,
      response: Success,
      errors: ['rate_limited', 'unavailable'],
      handler: ({ ctx, body }) => forgotPassword(ctx, body.email, parts),
    }),
    route({
      method: 'post',
      path: '/auth/reset-password',
      summary: 'Set a new password by the link in the mail',
      description:
        'Proves the address, and ends what was opened before: all sessions and all API keys of the person. Where nobody had proved the address, the second factor too.',
      access: 'public',
      unaudited: 'writes user.password.change itself: who it is turns out on the way',
      body: PasswordReset,
      response: Success,
      handler: ({ ctx, body }) => resetPassword(ctx, body, parts),
    }),
    route({
      method: 'post',
      path: '/auth/change-password',
      summary: 'Change one’s own password',
      description: 'Ends all other sessions. API keys go on working.',
      access: 'person',
      unaudited: 'writes user.password.change itself, as it hashes between two transactions',
      transaction: false,
      body: PasswordChange,
      response: Success,
      errors: ['conflict', 'rate_limited', 'unavailable'],
      handler: ({ ctx, body }) => changePassword(ctx, body, parts),
    }),
    route({
      method: 'get',
      path: '/auth/sessions',
      summary: 'List one’s own sessions, last used first',
      access: 'person',
      query: PageQuery,
      response: pageOf(OwnSession),
      handler: ({ ctx, query }) => listOwnSessions(ctx, query),
    }),
    route({
      method: 'delete',
      path: '/auth/sessions/:id',
      summary: 'End one of one’s own sessions',
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
      summary: 'End all of one’s own sessions but this one',
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
