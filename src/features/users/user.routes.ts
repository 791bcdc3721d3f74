import { z } from 'zod';
import { everyScope, peopleOfEveryScope } from '../../platform/http/authentication.ts';
import { auditSubject } from '../../platform/http/audit.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { invite, resendInvitation, type InvitationParts } from './invitation.service.ts';
import {
  assignRole,
  changeMember,
  changeSelf,
  listMembers,
  type MemberGuards,
  readSelf,
  removeMember,
  resetSecondFactors,
} from './member.service.ts';
import { readMember, type Member } from './user.queries.ts';
import {
  Invited,
  NewInvitation,
  OwnChange,
  Resend,
  RoleAssignment,
  User,
  UserChange,
  UserQuery,
} from './user.schema.ts';

const about = (member: Member) => auditSubject({ ...member, name: member.email });

export function userRoutes(parts: InvitationParts & MemberGuards): RouteGroup {
  return {
    name: 'Users',
    description: 'Users, their memberships and their roles.',
    routes: [
      route({
        method: 'get',
        path: '/users',
        summary: 'List users, by name',
        access: everyScope('users:read'),
        query: UserQuery,
        response: pageOf(User),
        handler: ({ ctx, query }) => listMembers(ctx, query),
      }),
      route({
        method: 'get',
        path: '/users/me',
        summary: 'Read your own user record',
        access: 'signed-in',
        response: User,
        handler: ({ ctx }) => readSelf(ctx),
      }),
      route({
        method: 'patch',
        path: '/users/me',
        summary: 'Change your own name',
        access: 'person',
        body: OwnChange,
        response: User,
        handler: ({ ctx, body }) => changeSelf(ctx, body),
        audit: {
          action: 'user.update',
          resource: 'user',
          note: (member, { body }) => ({ ...about(member), details: body }),
        },
      }),
      route({
        method: 'delete',
        path: '/users/me',
        summary: 'Leave your partner or organization',
        description:
          'Your account stays and can be invited elsewhere. The last administrator cannot leave, nor the last person who can sign in if an enforced identity provider fails.',
        access: 'person',
        response: z.object({ success: z.literal(true) }),
        errors: ['conflict'],
        handler: ({ ctx }) => removeMember(ctx, ctx.caller.userId, parts),
        audit: { action: 'user.delete', resource: 'user', note: ({ member }) => about(member) },
      }),
      route({
        method: 'post',
        path: '/users/invite',
        summary: 'Invite a user',
        description:
          'Invites into the caller’s partner or organization, or into an accessible organization with `orgId` (or with one entry in `orgIds`, where the role is for users of an organization). An invitation does not reserve the address. The mailed link also proves the address; the link in this response does not.',
        access: peopleOfEveryScope('users:invite'),
        body: NewInvitation,
        response: Invited,
        status: 201,
        errors: ['conflict', 'rate_limited', 'unavailable'],
        prepare: ({ ctx, body }) => parts.invitationLimits.beforeInvitation(ctx.caller, body.email),
        handler: ({ ctx, body }) => invite(ctx, body, parts),
        audit: {
          action: 'user.invite',
          resource: 'user',
          note: (member) => ({
            ...about(member),
            details: { roleId: member.roleId, orgAccess: member.orgAccess, orgIds: member.orgIds },
          }),
        },
      }),
      route({
        method: 'post',
        path: '/users/resend-invite',
        summary: 'Resend an invitation',
        description: 'Sends a new link; the previous one stops working.',
        access: peopleOfEveryScope('users:invite'),
        body: Resend,
        response: Invited,
        errors: ['not_found', 'conflict', 'rate_limited', 'unavailable'],
        prepare: ({ ctx, body }) => parts.invitationLimits.beforeResending(ctx.caller, body.userId),
        handler: ({ ctx, body }) => resendInvitation(ctx, body.userId, parts),
        audit: { action: 'user.invite', resource: 'user', note: (member) => about(member) },
      }),
      route({
        method: 'get',
        path: '/users/:id',
        summary: 'Read a user',
        access: everyScope('users:read'),
        params: IdParams,
        response: User,
        handler: ({ ctx, params }) => readMember(ctx, params.id),
      }),
      route({
        method: 'patch',
        path: '/users/:id',
        summary: 'Rename, disable or enable a user',
        description:
          'Disabling ends the user’s sessions and stops their API keys. The last administrator cannot be disabled, nor the last person who can sign in if an enforced identity provider fails. API keys can disable users but not enable them.',
        access: everyScope('users:write'),
        params: IdParams,
        body: UserChange,
        response: User,
        errors: ['conflict'],
        handler: ({ ctx, params, body }) => changeMember(ctx, params.id, body, parts),
        audit: {
          action: 'user.update',
          resource: 'user',
          note: (member, { body }) => ({ ...about(member), details: body }),
        },
      }),
      route({
        method: 'delete',
        path: '/users/:id',
        summary: 'Remove a user from their partner or organization, or withdraw an invitation',
        description:
          'The account stays. The last administrator cannot be removed, nor the last person who can sign in if an enforced identity provider fails.',
        access: everyScope('users:delete'),
        params: IdParams,
        response: z.object({ success: z.literal(true) }),
        errors: ['conflict'],
        handler: ({ ctx, params }) => removeMember(ctx, params.id, parts),
        audit: { action: 'user.delete', resource: 'user', note: ({ member }) => about(member) },
      }),
      route({
        method: 'post',
        path: '/users/:id/role',
        summary: 'Change a user’s role',
        description:
          'You cannot grant permissions that you do not have. The change applies from the user’s next request.',
        access: peopleOfEveryScope('users:write'),
        params: IdParams,
        body: RoleAssignment,
        response: User,
        errors: ['conflict'],
        handler: ({ ctx, params, body }) => assignRole(ctx, params.id, body, parts),
        audit: {
          action: 'user.permission.change',
          resource: 'user',
          note: ({ before, ...member }) => ({
            ...about(member),
            details: { before: rights(before), after: rights(member) },
          }),
        },
      }),
      route({
        method: 'post',
        path: '/users/:id/mfa/reset',
        summary: 'Remove the second factors of a user who has lost them',
        description:
          'Removes the authenticator app with its recovery codes, and all passkeys. Their sessions end, their password and API keys stay, and they are told by mail. Needs your own second factor of the last 15 minutes, and all permissions that the user has. Your own second factors are removed on your profile. The last person who can sign in if an enforced identity provider fails keeps theirs.',
        access: { ...peopleOfEveryScope('users:write'), mfa: true },
        params: IdParams,
        response: User,
        errors: ['conflict', 'mfa_required'],
        handler: ({ ctx, params }) => resetSecondFactors(ctx, params.id, parts),
        audit: { action: 'user.mfa_reset', resource: 'user', note: (member) => about(member) },
      }),
    ],
  };
}

const rights = ({ roleId, roleName, orgAccess, orgIds }: Member) => ({ roleId, roleName, orgAccess, orgIds });
