import { everyScope } from '../../../platform/http/access.ts';
import { pageOf } from '../../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../../platform/http/route.ts';
import { LIVE_ERRORS } from '../access/ask-device.ts';
import { readOfDevice, readOfDevices } from '../access/inventory-read.ts';
import { BackupRestore } from '../restores/restore.schema.ts';
import type { RestoreParts } from '../restores/restore.service.ts';
import { listChains } from './chain.service.ts';
import {
  BackupDatabaseChains,
  ChainQuery,
  DeviceInstanceQuery,
  DeviceParams,
  FoundInstance,
  InstanceQuery,
  InstancesOfDevice,
  NewDatabaseRestore,
} from './databases.schema.ts';
import { instancesOfDevice, listInstances } from './instance.service.ts';
import { prepareDatabaseRestore, restoreDatabase } from './restore-database.ts';

export const databaseRoutes = (parts: RestoreParts): RouteGroup => ({
  name: 'Backups of databases',
  description: 'Database servers on devices: what there is, what can be restored, and to which instant.',
  routes: [
    route({
      method: 'get',
      path: '/backup/databases/instances',
      summary: 'List the database servers of devices',
      access: everyScope('backup:read'),
      transaction: false,
      query: InstanceQuery,
      response: pageOf(FoundInstance),
      errors: LIVE_ERRORS,
      handler: ({ ctx, query }) => listInstances(ctx, query, parts),
      audit: readOfDevices('database servers'),
    }),
    route({
      method: 'get',
      path: '/backup/databases/instances/:deviceId',
      summary: 'List the database servers of a device',
      access: everyScope('backup:read'),
      transaction: false,
      params: DeviceParams,
      query: DeviceInstanceQuery,
      response: InstancesOfDevice,
      errors: LIVE_ERRORS,
      handler: ({ ctx, params, query }) => instancesOfDevice(ctx, params.deviceId, query, parts),
      audit: readOfDevice('database servers'),
    }),
    route({
      method: 'get',
      path: '/backup/databases/chains',
      summary: 'List what can be restored of databases',
      description:
        'One entry for each repository with backups of databases. A chain is a full backup with everything that continues it.',
      access: everyScope('backup:read'),
      cost: 'expensive',
      query: ChainQuery,
      response: pageOf(BackupDatabaseChains),
      handler: ({ ctx, query }) => listChains(ctx, query),
    }),
    route({
      method: 'post',
      path: '/backup/databases/restore',
      summary: 'Restore a database server into a folder of a device',
      description:
        'All snapshots that are needed are looked up first: where one is missing, nothing begins. The answer is a restore as `/backup/restore` lists them.',
      access: everyScope('recovery:execute'),
      body: NewDatabaseRestore,
      response: BackupRestore,
      status: 201,
      idempotent: true,
      errors: ['conflict', 'not_found', 'capability_missing', 'engine_missing', 'unavailable'],
      prepare: ({ ctx, body }) => prepareDatabaseRestore(ctx, body, parts),
      handler: ({ ctx, body, prepared }) => restoreDatabase(ctx, body, prepared, parts),
      audit: {
        action: 'backup.database.restore',
        resource: 'backup_restore',
        note: ({ id, orgId, deviceId, snapshotId }, { body }) => {
          const { targetPath, targetDatabase = null, pointInTime = null, noRecovery } = body;
          return {
            orgId,
            resourceId: id,
            details: { deviceId, snapshotId, targetPath, targetDatabase, pointInTime, noRecovery },
          };
        },
      },
    }),
  ],
});
