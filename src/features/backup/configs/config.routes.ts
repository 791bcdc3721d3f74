import { everyScope } from '../../../platform/http/access.ts';
import { auditSubject } from '../../../platform/http/audit.ts';
import { IdParams } from '../../../platform/http/fields.ts';
import { pageOf } from '../../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../../platform/http/route.ts';
import type { Sealer } from '../../../platform/secrets/sealed.ts';
import { BackupConfig, ConfigPatch, ConfigQuery, NewConfig } from './config.schema.ts';
import { createConfig, listConfigs, readConfig, updateConfig } from './config.service.ts';
import { shownConfig } from './provider.ts';

export const configRoutes = ({ secrets }: { secrets: Sealer }): RouteGroup => ({
  name: 'Backup configurations',
  description: 'What is backed up on which devices, where the data goes, when, and for how long it is kept.',
  routes: [
    route({
      method: 'get',
      path: '/backup/configs',
      summary: 'List backup configurations by name',
      access: everyScope('backup:read'),
      query: ConfigQuery,
      response: pageOf(BackupConfig),
      async handler({ ctx, query }) {
        const { data, pagination } = await listConfigs(ctx, query);
        return { data: data.map(shownConfig), pagination };
      },
    }),
    route({
      method: 'post',
      path: '/backup/configs',
      summary: 'Create a backup configuration',
      access: everyScope('backup:write'),
      body: NewConfig,
      response: BackupConfig,
      status: 201,
      errors: ['conflict', 'limit_reached'],
      handler: async ({ ctx, body }) => shownConfig(await createConfig(ctx, body, secrets)),
      audit: {
        action: 'backup.config.create',
        resource: 'backup_config',
        note: (config) => ({ ...auditSubject(config), details: { provider: config.provider } }),
      },
    }),
    route({
      method: 'get',
      path: '/backup/configs/:id',
      summary: 'Read a backup configuration',
      access: everyScope('backup:read'),
      params: IdParams,
      response: BackupConfig,
      handler: async ({ ctx, params }) => shownConfig(await readConfig(ctx, params.id)),
    }),
    route({
      method: 'patch',
      path: '/backup/configs/:id',
      summary: 'Change a backup configuration',
      description:
        'Each field replaces the stored one as a whole. The secret key of a bucket stays where `details` leaves it out. Provider and encryption key cannot be changed.',
      access: everyScope('backup:write'),
      params: IdParams,
      body: ConfigPatch,
      response: BackupConfig,
      errors: ['conflict'],
      async handler({ ctx, params, body }) {
        const config = await updateConfig(ctx, params.id, body, secrets);
        return { ...shownConfig(config), changedFields: config.changedFields };
      },
      audit: {
        action: 'backup.config.update',
        resource: 'backup_config',
        note: (config) => ({ ...auditSubject(config), details: { changedFields: config.changedFields } }),
      },
    }),
  ],
});
