import { z } from 'zod';
import { everyScope, peopleOfEveryScope } from '../../platform/http/access.ts';
import { auditSubject } from '../../platform/http/audit.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { invite, resendInvitation, type InvitationParts } from './invitations/invitation.service.ts';
import {
  assignRole,
  changePerson,
  changeSelf,
  listPeople,
  readSelf,
  removePerson,
} from './members/member.service.ts';
import { readPerson, type Person } from './members/member.queries.ts';
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

const about = (member: Person) => auditSubject({ ...member, name: member.email });

export function userRoutes(parts: InvitationParts): RouteGroup {
  return {
    name: 'Users',
    description: 'People, where they belong and what they may do there.',
    routes: [
      route({
        method: 'get',
        path: '/users',
        summary: 'List people, by name',
        access: everyScope('users:read'),
        query: UserQuery,
        response: pageOf(User),
        handler: ({ ctx, query }) => listPeople(ctx, query),
      }),
      route({
        method: 'get',
        path: '/users/me',
        summary: 'Read one’s own record',
        access: 'signed-in',
        response: User,
        handler: ({ ctx }) => readSelf(ctx),
      }),
      route({
        method: 'patch',
        path: '/users/me',
        summary: 'Change one’s own name',
        access: 'person',
        body: OwnChange,
        response: User,
        handler: ({ ctx, body }) => changeSelf(ctx, body),
        audit: {
          action: 'user.update',
          resource: 'user',
          note: (person, { body }) => ({ ...about(person), details: body }),
        },
      }),
      route({
        method: 'delete',
        path: '/users/me',
        summary: 'Leave one’s partner or organization',
        description: 'The account stays, and can be invited elsewhere. The last administrator cannot leave.',
        access: 'person',
        response: z.object({ success: z.literal(true) }),
        errors: ['conflict'],
        handler: ({ ctx }) => removePerson(ctx, ctx.caller.userId),
        audit: { action: 'user.delete', resource: 'user', note: ({ person }) => about(person) },
      }),
      route({
        method: 'post',
        path: '/users/invite',
        summary: 'Invite someone',
        description:
          'Into the caller’s partner or organization, or into an accessible organization by `orgId` (or by `orgIds` with one entry, where the role is for people of an organization). The invitation takes nothing until it is accepted. The link that is mailed also proves the address; the one in this answer does not.',
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
          note: (person) => ({
            ...about(person),
            details: { roleId: person.roleId, orgAccess: person.orgAccess, orgIds: person.orgIds },
          }),
        },
      }),
      route({
        method: 'post',
        path: '/users/resend-invite',
        summary: 'Send an invitation again',
        description: 'With a new link; the one before stops working.',
        access: peopleOfEveryScope('users:invite'),
        body: Resend,
        response: Invited,
        errors: ['not_found', 'conflict', 'rate_limited', 'unavailable'],
        prepare: ({ ctx, body }) => parts.invitationLimits.beforeResending(ctx.caller, body.userId),
        handler: ({ ctx, body }) => resendInvitation(ctx, body.userId, parts),
        audit: { action: 'user.invite', resource: 'user', note: (person) => about(person) },
      }),
      route({
        method: 'get',
        path: '/users/:id',
        summary: 'Read a person',
        access: everyScope('users:read'),
        params: IdParams,
        response: User,
        handler: ({ ctx, params }) => readPerson(ctx, params.id),
      }),
      route({
        method: 'patch',
        path: '/users/:id',
        summary: 'Rename, disable or enable a person',
        description:
          'Disabling ends their sessions and stops their API keys. The last administrator cannot be disabled. An API key may disable, and not enable.',
        access: everyScope('users:write'),
        params: IdParams,
        body: UserChange,
        response: User,
        errors: ['conflict'],
        handler: ({ ctx, params, body }) => changePerson(ctx, params.id, body),
        audit: {
          action: 'user.update',
          resource: 'user',
          note: (person, { body }) => ({ ...about(person), details: body }),
        },
      }),
      route({
        method: 'delete',
        path: '/users/:id',
        summary: 'Remove a person from their partner or organization, or take an invitation back',
        description: 'The account stays. The last administrator cannot be removed.',
        access: everyScope('users:delete'),
        params: IdParams,
        response: z.object({ success: z.literal(true) }),
        errors: ['conflict'],
        handler: ({ ctx, params }) => removePerson(ctx, params.id),
        audit: { action: 'user.delete', resource: 'user', note: ({ person }) => about(person) },
      }),
      route({
        method: 'post',
        path: '/users/:id/role',
        summary: 'Give a person another role',
        description: 'Nobody gives more than they hold. Counts from the person’s next request on.',
        access: peopleOfEveryScope('users:write'),
        params: IdParams,
        body: RoleAssignment,
        response: User,
        errors: ['conflict'],
        handler: ({ ctx, params, body }) => assignRole(ctx, params.id, body),
        audit: {
          action: 'user.permission.change',
          resource: 'user',
          note: ({ before, ...person }) => ({
            ...about(person),
            details: { before: rights(before), after: rights(person) },
          }),
        },
      }),
    ],
  };
}

const rights = ({ roleId, roleName, orgAccess, orgIds }: Person) => ({ roleId, roleName, orgAccess, orgIds });
