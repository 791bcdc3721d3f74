import { everyScope, peopleOfEveryScope } from '../../../platform/http/access.ts';
import { IdParams } from '../../../platform/http/fields.ts';
import { pageOf } from '../../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../../platform/http/route.ts';
import { BackupSnapshot, ImmutabilityChange, LegalHoldChange, SnapshotQuery } from './snapshot.schema.ts';
import { changeLegalHold, extendImmutability, listSnapshots, readSnapshot } from './snapshot.service.ts';

export const snapshotRoutes: RouteGroup = {
  name: 'Backup snapshots',
  description: 'What the backups have made.',
  routes: [
    route({
      method: 'get',
      path: '/backup/snapshots',
      summary: 'List backup snapshots, the newest first',
      description: 'Ordered by when the store received them, which no device decides.',
      access: everyScope('backup:read'),
      query: SnapshotQuery,
      response: pageOf(BackupSnapshot),
      handler: ({ ctx, query }) => listSnapshots(ctx, query),
    }),
    route({
      method: 'get',
      path: '/backup/snapshots/:id',
      summary: 'Read a backup snapshot',
      access: everyScope('backup:read'),
      params: IdParams,
      response: BackupSnapshot,
      handler: ({ ctx, params }) => readSnapshot(ctx, params.id),
    }),
    route({
      method: 'post',
      path: '/backup/snapshots/:id/legal-hold',
      summary: 'Set or release the legal hold of a backup snapshot',
      description: 'For as long as a snapshot is held, no retention and no person removes it.',
      access: peopleOfEveryScope('backup:write'),
      params: IdParams,
      body: LegalHoldChange,
      response: BackupSnapshot,
      errors: ['conflict', 'mfa_required'],
      handler: ({ ctx, params, body }) => changeLegalHold(ctx, params.id, body),
      audit: {
        action: 'backup.snapshot.legal-hold',
        resource: 'backup_snapshot',
        note: ({ id, orgId }, { body }) => ({ orgId, resourceId: id, details: body }),
      },
    }),
    route({
      method: 'post',
      path: '/backup/snapshots/:id/immutability',
      summary: 'Make a backup snapshot immutable until a time',
      description: 'The time can be put off and never be brought forward.',
      access: peopleOfEveryScope('backup:write'),
      params: IdParams,
      body: ImmutabilityChange,
      response: BackupSnapshot,
      errors: ['conflict'],
      handler: ({ ctx, params, body }) => extendImmutability(ctx, params.id, body),
      audit: {
        action: 'backup.snapshot.immutability',
        resource: 'backup_snapshot',
        note: ({ id, orgId, immutableUntil }, { body }) => ({
          orgId,
          resourceId: id,
          details: { immutableUntil, reason: body.reason ?? null },
        }),
      },
    }),
  ],
};
