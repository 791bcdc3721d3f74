import { everyScope } from '../../platform/http/authentication.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { BackupRestore, NewRestore, RestoreQuery } from './restore.schema.ts';
import {
  cancelRestore,
  createRestore,
  listRestores,
  prepareRerun,
  prepareRestore,
  readRestore,
  rerunRestore,
  type RestoreParts,
} from './restore.service.ts';

const about = ({ id, orgId, deviceId, snapshotId, dryRun }: ShownRestore) => ({
  orgId,
  resourceId: id,
  details: { deviceId, snapshotId, dryRun },
});
type ShownRestore = Awaited<ReturnType<typeof readRestore>>;

export const restoreRoutes = (parts: RestoreParts): RouteGroup => ({
  name: 'Restores',
  description: 'Data of backup snapshots that comes back to a device.',
  routes: [
    route({
      method: 'post',
      path: '/backup/restore',
      summary: 'Restore a backup snapshot to a device',
      description:
        'The device that was backed up, or another one of its organization. The snapshot and the selected paths are looked up first. A device that is offline begins when it returns, until `expiresAt`. Snapshots whose data is not on this server are answered with 409. With `volume`, files come out of an image; `details.code` is FILE_SYSTEM_UNSUPPORTED for a file system other than ext, and FILE_SYSTEM_DAMAGED for a broken one.',
      access: everyScope('recovery:execute'),
      body: NewRestore,
      response: BackupRestore,
      status: 201,
      idempotent: true,
      errors: ['conflict', 'not_found', 'capability_missing', 'engine_missing', 'unavailable'],
      prepare: ({ ctx, body, signal }) => prepareRestore(ctx, body, parts, signal),
      handler: ({ ctx, body, prepared }) => createRestore(ctx, body, prepared, parts),
      audit: {
        action: 'backup.restore',
        resource: 'backup_restore',
        note: (restore, { body }) => {
          const { targetPath = null, selectedPaths = [], volume = null, overwrite, asOf = null } = body;
          const { details, ...subject } = about(restore);
          return {
            ...subject,
            details: { ...details, targetPath, selectedPaths: selectedPaths.length, volume, overwrite, asOf },
          };
        },
      },
    }),
    route({
      method: 'get',
      path: '/backup/restore',
      summary: 'List restores, the newest first',
      access: everyScope('recovery:read'),
      query: RestoreQuery,
      response: pageOf(BackupRestore),
      handler: ({ ctx, query }) => listRestores(ctx, query, parts.hub),
    }),
    route({
      method: 'get',
      path: '/backup/restore/:id',
      summary: 'Read a restore',
      access: everyScope('recovery:read'),
      params: IdParams,
      response: BackupRestore,
      handler: ({ ctx, params }) => readRestore(ctx, params.id, parts.hub),
    }),
    route({
      method: 'post',
      path: '/backup/restore/:id/cancel',
      summary: 'Cancel a restore',
      description: 'What was moved to its place by then stays there.',
      access: everyScope('recovery:execute'),
      params: IdParams,
      response: BackupRestore,
      errors: ['conflict'],
      handler: ({ ctx, params }) => cancelRestore(ctx, params.id, parts),
      audit: { action: 'backup.restore.cancel', resource: 'backup_restore', note: about },
    }),
    route({
      method: 'post',
      path: '/backup/restore/:id/rerun',
      summary: 'Run a restore again that did not succeed',
      description: 'The device goes on with what it had fetched, if that is still there.',
      access: everyScope('recovery:execute'),
      params: IdParams,
      response: BackupRestore,
      idempotent: true,
      errors: ['conflict', 'capability_missing', 'engine_missing', 'unavailable'],
      prepare: ({ ctx, params, signal }) => prepareRerun(ctx, params.id, parts, signal),
      handler: ({ ctx, params, prepared }) => rerunRestore(ctx, params.id, prepared, parts),
      audit: { action: 'backup.restore.rerun', resource: 'backup_restore', note: about },
    }),
  ],
});
