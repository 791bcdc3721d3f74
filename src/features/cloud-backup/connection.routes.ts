import { z } from 'zod';
import { everyScope, peopleOfEveryScope } from '../../platform/http/authentication.ts';
import { NoBody } from '../../platform/http/file-answer.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import type { ClientInfo } from '../../platform/context.ts';
import {
  CallbackQuery,
  CloudConnection,
  ConnectionPatch,
  ConnectionQuery,
  ConnectionTest,
  ConsentQuery,
  NewConnection,
} from './connection.schema.ts';
import {
  createConnection,
  deleteConnection,
  findConnection,
  listConnections,
  toConnectionResponse,
  updateConnection,
  testConnection,
} from './connection.service.ts';
import { beginConsent, type ConsentParts, finishConsent } from './consent.service.ts';

/** A connection gives access to all mail of a directory, so a second factor is required and API keys are refused. */
const CONNECT = { ...peopleOfEveryScope('backup:write'), mfa: true } as const;

const about = ({ id, orgId, displayName }: { id: string; orgId: string; displayName: string }) => ({
  orgId,
  resourceId: id,
  resourceName: displayName,
});

export interface ConnectionRouteParts extends ConsentParts {
  consentLimit: (client: ClientInfo) => Promise<void>;
}

export const connectionRoutes = (parts: ConnectionRouteParts): RouteGroup => ({
  name: 'Cloud connections',
  description: 'Access to directories of Microsoft 365 that are backed up.',
  routes: [
    route({
      method: 'get',
      path: '/c2c/m365/config',
      summary: 'Check if this server has its own app at Microsoft',
      access: everyScope('backup:read'),
      response: z.object({ platformAppAvailable: z.boolean() }),
      handler: () =>
        Promise.resolve({ platformAppAvailable: parts.cloud.cloudBackup.platformApp !== undefined }),
    }),
    route({
      method: 'get',
      path: '/c2c/m365/consent-url',
      summary: 'Begin to connect a directory with the app of this server',
      description:
        'Answers the address at which an administrator of the directory consents, and sets the cookie `svc_c2c_state`: the same browser has to open it within 15 minutes.',
      access: CONNECT,
      query: ConsentQuery,
      response: z.object({ url: z.url() }),
      errors: ['conflict', 'tenant_inactive'],
      unaudited: 'the callback audits the connection',
      handler: ({ ctx, query, reply }) => beginConsent({ ctx, reply }, query, parts),
    }),
    route({
      method: 'get',
      path: '/c2c/m365/callback',
      summary: 'Finish to connect a directory, when the browser returns from Microsoft',
      description:
        'Comes twice: after the consent, and after the sign-in that proves the directory. Redirects to the dashboard with `connected` and the id of the connection, or with `c2c_error`.',
      access: 'public',
      before: parts.consentLimit,
      query: CallbackQuery,
      redirects: true,
      response: NoBody,
      errors: ['rate_limited', 'unavailable'],
      handler: ({ ctx, query, cookies, reply }) => finishConsent({ ctx, query, cookies, reply }, parts),
    }),
    route({
      method: 'get',
      path: '/c2c/connections',
      summary: 'List cloud connections by name',
      access: everyScope('backup:read'),
      query: ConnectionQuery,
      response: pageOf(CloudConnection),
      handler: ({ ctx, query }) => listConnections(ctx, query),
    }),
    route({
      method: 'post',
      path: '/c2c/connections',
      summary: 'Create a cloud connection with an app of the organization',
      access: CONNECT,
      body: NewConnection,
      response: CloudConnection,
      status: 201,
      errors: ['conflict', 'limit_reached', 'provider_unsupported'],
      handler: ({ ctx, body }) => createConnection(ctx, body, parts.cloud.secrets),
      audit: {
        action: 'c2c.connection.create',
        resource: 'c2c_connection',
        note: (connection) => ({
          ...about(connection),
          details: { authMethod: connection.authMethod, tenantId: connection.tenantId },
        }),
      },
    }),
    route({
      method: 'get',
      path: '/c2c/connections/:id',
      summary: 'Read a cloud connection',
      access: everyScope('backup:read'),
      params: IdParams,
      response: CloudConnection,
      handler: async ({ ctx, params }) => toConnectionResponse(await findConnection(ctx, params.id)),
    }),
    route({
      method: 'patch',
      path: '/c2c/connections/:id',
      summary: 'Rename a cloud connection, or give it a new secret',
      access: CONNECT,
      params: IdParams,
      body: ConnectionPatch,
      response: CloudConnection,
      errors: ['conflict'],
      handler: ({ ctx, params, body }) => updateConnection(ctx, params.id, body, parts.cloud.secrets),
      audit: {
        action: 'c2c.connection.update',
        resource: 'c2c_connection',
        note: (connection) => ({
          ...about(connection),
          details: { changedFields: connection.changedFields },
        }),
      },
    }),
    route({
      method: 'post',
      path: '/c2c/connections/:id/test',
      summary: 'Test a cloud connection',
      access: everyScope('backup:execute'),
      params: IdParams,
      response: ConnectionTest,
      prepare: ({ ctx, params, signal }) => testConnection(ctx, params.id, { ...parts, signal }),
      handler: ({ prepared }) => Promise.resolve(prepared),
      audit: {
        action: 'c2c.connection.test',
        resource: 'c2c_connection',
        note: (test) => ({ ...about(test), details: { status: test.status } }),
      },
    }),
    route({
      method: 'delete',
      path: '/c2c/connections/:id',
      summary: 'Delete a cloud connection that no configuration uses',
      access: { ...peopleOfEveryScope('backup:delete'), mfa: true },
      params: IdParams,
      response: z.object({ success: z.literal(true) }),
      errors: ['conflict'],
      handler: ({ ctx, params }) => deleteConnection(ctx, params.id),
      audit: {
        action: 'c2c.connection.delete',
        resource: 'c2c_connection',
        note: ({ connection }) => about(connection),
      },
    }),
  ],
});
