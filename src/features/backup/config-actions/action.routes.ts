import { everyScope, peopleOfEveryScope } from '../../../platform/http/access.ts';
import { auditSubject } from '../../../platform/http/audit.ts';
import { IdParams } from '../../../platform/http/fields.ts';
import { route, type RouteGroup } from '../../../platform/http/route.ts';
import { ConfigDeleted, ConfigTest, ConfigTestResult, DeleteConfigQuery } from './action.schema.ts';
import { deleteConfig } from './delete-config.ts';
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
