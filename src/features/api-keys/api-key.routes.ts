import { z } from 'zod';
import { auditSubject } from '../../platform/http/audit.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { ApiKey, ApiKeyChange, ApiKeyQuery, ApiKeyWithSecret, NewApiKey } from './api-key.schema.ts';
import {
  changeApiKey,
  createApiKey,
  listApiKeys,
  readApiKey,
  revokeApiKey,
  rotateApiKey,
} from './api-key.service.ts';

export const apiKeyRoutes: RouteGroup = {
  name: 'API keys',
  description:
    'Keys for programs. A key acts for its creator, with the rights that both its creator and its scopes have at the moment.',
  routes: [
    route({
      method: 'post',
      path: '/api-keys',
      summary: 'Create an API key',
      description:
        'The key is returned only once. A person can have 100 keys that are neither revoked nor expired.',
      access: 'person',
      body: NewApiKey,
      response: ApiKeyWithSecret,
      status: 201,
      errors: ['limit_reached'],
      handler: ({ ctx, body }) => createApiKey(ctx, body),
      audit: {
        action: 'api_key.create',
        resource: 'api_key',
        note: ({ scopes, ...key }) => ({ ...auditSubject(key), details: { scopes } }),
      },
    }),
    route({
      method: 'get',
      path: '/api-keys',
      summary: 'List your API keys, newest first',
      description: 'With `users:write`: those of everyone in your tenant.',
      access: 'person',
      query: ApiKeyQuery,
      response: pageOf(ApiKey),
      handler: ({ ctx, query }) => listApiKeys(ctx, query),
    }),
    route({
      method: 'get',
      path: '/api-keys/:id',
      summary: 'Read an API key',
      access: 'person',
      params: IdParams,
      response: ApiKey,
      handler: ({ ctx, params }) => readApiKey(ctx, params.id),
    }),
    route({
      method: 'patch',
      path: '/api-keys/:id',
      summary: 'Change an API key of your own',
      access: 'person',
      params: IdParams,
      body: ApiKeyChange,
      response: ApiKey,
      errors: ['conflict'],
      handler: ({ ctx, params, body }) => changeApiKey(ctx, params.id, body),
      audit: {
        action: 'api_key.update',
        resource: 'api_key',
        note: (key, { body }) => ({ ...auditSubject(key), details: body }),
      },
    }),
    route({
      method: 'delete',
      path: '/api-keys/:id',
      summary: 'Revoke an API key',
      description: 'One of your own; with `users:write` any of your tenant.',
      access: 'person',
      params: IdParams,
      response: z.object({ success: z.literal(true) }),
      handler: ({ ctx, params }) => revokeApiKey(ctx, params.id),
      audit: { action: 'api_key.revoke', resource: 'api_key', note: ({ key }) => auditSubject(key) },
    }),
    route({
      method: 'post',
      path: '/api-keys/:id/rotate',
      summary: 'Replace the secret of an API key of your own',
      description: 'The old one is refused from now on. The new one is returned only once.',
      access: 'person',
      params: IdParams,
      response: ApiKeyWithSecret,
      errors: ['conflict'],
      handler: ({ ctx, params }) => rotateApiKey(ctx, params.id),
      audit: { action: 'api_key.rotate', resource: 'api_key', note: auditSubject },
    }),
  ],
};
