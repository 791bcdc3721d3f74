import { auditSubject } from '../../platform/http/audit.ts';
import { everyScope, peopleOfEveryScope } from '../../platform/http/authentication.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import type { Encryptor } from '../../platform/secrets/sealed.ts';
import {
  BackupConfig,
  ConfigDeleted,
  ConfigPatch,
  ConfigQuery,
  ConfigTest,
  ConfigTestResult,
  DeleteConfigQuery,
  NewConfig,
} from './config.schema.ts';
import {
  createConfig,
  deleteConfig,
  listConfigs,
  readConfig,
  updateConfig,
  toConfigResponse,
} from './config.service.ts';
import { testConfig, type TestParts } from './test-config.ts';

export const configActionRoutes = (parts: TestParts): RouteGroup => ({
  name: 'Tests and deletion of backup configurations',
  description: 'Whether backups with a configuration would work, and its end.',
  routes: [
    route({
      method: 'post',
      path: '/backup/configs/:id/test',
      summary: 'Test a backup configuration',
      description:
        'Checks the encryption key, the sources and the destination. With `s3` and `local` the named device does it, which takes some seconds.',
      access: everyScope('backup:execute'),
      params: IdParams,
      body: ConfigTest,
      response: ConfigTestResult,
      errors: ['capability_missing', 'device_timeout'],
      // Waits for the device or the engine, so before the transaction that the entry is written in.
      prepare: ({ ctx, params, body }) => testConfig(ctx, params.id, body, parts),
      handler: ({ prepared }) => Promise.resolve(prepared),
      audit: {
        action: 'backup.config.test',
        resource: 'backup_config',
        note: ({ id, orgId, name, status }) => ({
          ...auditSubject({ id, orgId, name }),
          details: { status },
        }),
      },
    }),
    route({
      method: 'delete',
      path: '/backup/configs/:id',
      summary: 'Delete a backup configuration',
      description:
        'Refused while a backup of it runs, and while snapshots of it are held, unless `keepSnapshots` is true. Jobs that have not begun are cancelled.',
      access: { ...peopleOfEveryScope('backup:delete'), mfa: true },
      params: IdParams,
      query: DeleteConfigQuery,
      response: ConfigDeleted,
      errors: ['conflict'],
      handler: ({ ctx, params, query }) => deleteConfig(ctx, params.id, query),
      audit: {
        action: 'backup.config.delete',
        resource: 'backup_config',
        note: ({ config, keptSnapshots }) => ({ ...auditSubject(config), details: { keptSnapshots } }),
      },
    }),
  ],
});

export const configRoutes = ({ secrets }: { secrets: Encryptor }): RouteGroup => ({
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
        return { data: data.map(toConfigResponse), pagination };
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
      handler: async ({ ctx, body }) => toConfigResponse(await createConfig(ctx, body, secrets)),
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
      handler: async ({ ctx, params }) => toConfigResponse(await readConfig(ctx, params.id)),
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
        return { ...toConfigResponse(config), changedFields: config.changedFields };
      },
      audit: {
        action: 'backup.config.update',
        resource: 'backup_config',
        note: (config) => ({ ...auditSubject(config), details: { changedFields: config.changedFields } }),
      },
    }),
  ],
});
