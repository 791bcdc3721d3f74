import { everyScope } from '../../platform/http/authentication.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { mapEngineErrors } from './repository-readers.ts';
import { BackupVerification, NewVerification, VerificationQuery } from './verification.schema.ts';
import { listVerifications, startVerification, type VerificationParts } from './verification.service.ts';

export const verificationRoutes = (parts: VerificationParts): RouteGroup => ({
  name: 'Backup verification',
  description: 'Proof that backups can be restored.',
  routes: [
    route({
      method: 'post',
      path: '/backup/verify',
      summary: 'Verify the backups of a device',
      description:
        '`integrity`: the server checks the structure of the repository and reads the next part of its data. `test_restore`: the device restores a sample into a private folder, and what it restored is compared by hash with what the repository holds. Of images, the server takes files out of their file systems.',
      access: everyScope('backup:execute'),
      body: NewVerification,
      response: BackupVerification,
      status: 201,
      idempotent: true,
      errors: ['conflict', 'capability_missing', 'engine_missing', 'server_engine_missing'],
      // Both kinds begin with restic on the server. It is looked for before the transaction.
      prepare: () => mapEngineErrors(() => parts.backupEngine.open()),
      handler: ({ ctx, body }) => startVerification(ctx, body, parts),
      audit: {
        action: 'backup.verify',
        resource: 'backup_verification',
        note: ({ id, orgId, deviceId, verificationType }) => ({
          orgId,
          resourceId: id,
          details: { deviceId, verificationType },
        }),
      },
    }),
    route({
      method: 'get',
      path: '/backup/verifications',
      summary: 'List verifications, newest first',
      access: everyScope('backup:read'),
      query: VerificationQuery,
      response: pageOf(BackupVerification),
      handler: ({ ctx, query }) => listVerifications(ctx, query),
    }),
  ],
});
