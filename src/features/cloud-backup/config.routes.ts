import { z } from 'zod';
import { everyScope, peopleOfEveryScope } from '../../platform/http/authentication.ts';
import { auditSubject } from '../../platform/http/audit.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import type { WorkEngine } from '../work/index.ts';
import {
  CloudConfig,
  CloudConfigPatch,
  CloudConfigQuery,
  CloudConfigUserQuery,
  CloudConfigUsers,
  NewCloudConfig,
} from './config.schema.ts';
import {
  createCloudConfig,
  deleteCloudConfig,
  findCloudConfig,
  listCloudConfigs,
  listConfigUsers,
  updateCloudConfig,
  withLastRun,
} from './config.service.ts';

export const cloudConfigRoutes = ({ work }: { work: WorkEngine }): RouteGroup => ({
  name: 'Cloud backup configurations',
  description: 'What of which cloud users is backed up, when, and for how long it is kept.',
  routes: [
    route({
      method: 'get',
      path: '/c2c/configs',
      summary: 'List cloud backup configurations by name',
      access: everyScope('backup:read'),
      query: CloudConfigQuery,
      response: pageOf(CloudConfig),
      handler: ({ ctx, query }) => listCloudConfigs(ctx, query),
    }),
    route({
      method: 'post',
      path: '/c2c/configs',
      summary: 'Create a cloud backup configuration',
      access: everyScope('backup:write'),
      body: NewCloudConfig,
      response: CloudConfig,
      status: 201,
      errors: ['conflict', 'limit_reached'],
      handler: async ({ ctx, body }) => withLastRun(ctx, await createCloudConfig(ctx, body)),
      audit: { action: 'c2c.config.create', resource: 'c2c_config', note: auditSubject },
    }),
    route({
      method: 'get',
      path: '/c2c/configs/:id',
      summary: 'Read a cloud backup configuration',
      access: everyScope('backup:read'),
      params: IdParams,
      response: CloudConfig,
      handler: async ({ ctx, params }) => withLastRun(ctx, await findCloudConfig(ctx, params.id)),
    }),
    route({
      method: 'get',
      path: '/c2c/configs/:id/users',
      summary: 'List the users with items in a cloud backup configuration',
      access: everyScope('backup:read'),
      cost: 'expensive',
      params: IdParams,
      query: CloudConfigUserQuery,
      response: CloudConfigUsers,
      handler: ({ ctx, params, query }) => listConfigUsers(ctx, params.id, query),
    }),
    route({
      method: 'patch',
      path: '/c2c/configs/:id',
      summary: 'Change a cloud backup configuration',
      description: 'Each field replaces the stored one as a whole.',
      access: everyScope('backup:write'),
      params: IdParams,
      body: CloudConfigPatch,
      response: CloudConfig,
      errors: ['conflict'],
      handler: async ({ ctx, params, body }) =>
        withLastRun(ctx, await updateCloudConfig(ctx, params.id, body)),
      audit: {
        action: 'c2c.config.update',
        resource: 'c2c_config',
        note: (config) => ({ ...auditSubject(config), details: { changedFields: config.changedFields } }),
      },
    }),
    route({
      method: 'delete',
      path: '/c2c/configs/:id',
      summary: 'Delete a cloud backup configuration with all its items',
      access: { ...peopleOfEveryScope('backup:delete'), mfa: true },
      params: IdParams,
      response: z.object({ success: z.literal(true) }),
      handler: ({ ctx, params }) => deleteCloudConfig(ctx, params.id, work),
      audit: {
        action: 'c2c.config.delete',
        resource: 'c2c_config',
        note: ({ config }) => auditSubject(config),
      },
    }),
  ],
});
