import { everyScope } from '../../platform/http/authentication.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { type RestoreParts, ShownRestore, deviceRequests } from '../backup/index.ts';
import {
  prepareDatabaseRestore,
  restoreDatabase,
  instancesOfDevice,
  listChains,
  listInstances,
} from './database.service.ts';
import {
  BackupDatabaseChains,
  ChainQuery,
  DeviceInstanceQuery,
  DeviceParams,
  InstanceQuery,
  InstancesOfDevice,
  NewDatabaseRestore,
  PageOfInstances,
  FoundInstance,
} from './database.schema.ts';
import { clock } from '../../clock.ts';
import type { DeviceHub } from '../../hub/index.ts';
import { noteOfDevice } from '../devices/index.ts';
import {
  DeviceVss,
  NewSqlBackup,
  NewSqlRestore,
  SqlChainQuery,
  SqlChains,
  SqlWork,
} from './sql-server.schema.ts';
import { backUpDatabase, readChains, restoreDatabaseFile } from './sql-server.service.ts';

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
      response: PageOfInstances,
      errors: deviceRequests.LIVE_ERRORS,
      handler: ({ ctx, query }) => listInstances(ctx, query, parts),
      audit: deviceRequests.readOfDevices('database servers'),
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
      errors: deviceRequests.LIVE_ERRORS,
      handler: ({ ctx, params, query }) => instancesOfDevice(ctx, params.deviceId, query, parts),
      audit: deviceRequests.readOfDevice('database servers'),
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
        'All snapshots that are needed are looked up first: if one is missing, nothing begins. The answer is a restore as `/backup/restore` lists them.',
      access: everyScope('recovery:execute'),
      body: NewDatabaseRestore,
      response: ShownRestore,
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

export const vssRoutes = ({ hub }: { hub: DeviceHub }): RouteGroup => ({
  name: 'Shadow copies',
  description: 'The volume shadow copies (VSS) of Windows, from which files in use are backed up.',
  routes: [
    route({
      method: 'get',
      path: '/backup/vss/status/:deviceId',
      summary: 'Read the state of the shadow copy writers of a device',
      description:
        'Read from the device while the caller waits, for at most 30 seconds. A device without Windows is answered with 409. Where Windows does not answer, 502 has the reason in `details.code`: ELEVATION_NEEDED, VSS_TIMED_OUT or VSS_FAILED.',
      access: everyScope('backup:read'),
      transaction: false,
      params: DeviceParams,
      response: DeviceVss,
      errors: ['device_offline', 'capability_missing', 'device_busy', 'device_error', 'device_timeout'],
      handler: async ({ ctx, params: { deviceId }, signal }) => {
        const question = { type: 'backup.vss-status', payload: {}, signal } as const;
        const status = await deviceRequests.askDevice(ctx, deviceId, question, hub);
        return { data: { deviceId, checkedAt: clock.date().toISOString(), ...status } };
      },
      audit: deviceRequests.readOfDevice('shadow copy writers'),
    }),
  ],
});

const ENGINE = 'mssql';

const about = ({ orgId, deviceId, id, type, instance, database }: SqlWork) => ({
  orgId,
  resourceId: deviceId,
  details: { commandId: id, type, instance, database },
});

export const sqlServerRoutes = (parts: { hub: DeviceHub }): RouteGroup => ({
  name: 'SQL Server',
  description: 'Databases of Microsoft SQL Server on devices, and their backups as files.',
  routes: [
    route({
      method: 'get',
      path: '/backup/mssql/instances',
      summary: 'List the instances of SQL Server of all devices',
      access: everyScope('backup:read'),
      transaction: false,
      query: InstanceQuery,
      response: pageOf(FoundInstance),
      errors: deviceRequests.LIVE_ERRORS,
      handler: ({ ctx, query }) => listInstances(ctx, { ...query, engine: ENGINE }, parts),
      audit: deviceRequests.readOfDevices('instances of SQL Server'),
    }),
    route({
      method: 'get',
      path: '/backup/mssql/instances/:deviceId',
      summary: 'List the instances of SQL Server of a device',
      access: everyScope('backup:read'),
      transaction: false,
      params: DeviceParams,
      query: DeviceInstanceQuery,
      response: InstancesOfDevice,
      errors: deviceRequests.LIVE_ERRORS,
      handler: ({ ctx, params, query }) =>
        instancesOfDevice(ctx, params.deviceId, { ...query, engine: ENGINE }, parts),
      audit: deviceRequests.readOfDevice('instances of SQL Server'),
    }),
    route({
      method: 'get',
      path: '/backup/mssql/chains',
      summary: 'Read what can be restored of a database of SQL Server',
      description:
        'From the history that SQL Server keeps of everybody’s backups, read from the device while the caller waits. The newest 20 full backups, with what joins each of them.',
      access: everyScope('backup:read'),
      transaction: false,
      query: SqlChainQuery,
      response: SqlChains,
      errors: deviceRequests.LIVE_ERRORS,
      handler: ({ ctx, query, signal }) => readChains(ctx, query, { ...parts, signal }),
      audit: {
        action: 'data.access',
        resource: 'device',
        coversPages: true,
        note: (_answer, { ctx, query: { deviceId, instance, database } }) =>
          noteOfDevice(ctx, deviceId, { what: 'chains of SQL Server', instance, database }),
      },
    }),
    route({
      method: 'post',
      path: '/backup/mssql/backup',
      summary: 'Back up a database of SQL Server into a file',
      description:
        'The service of SQL Server writes the file, and it stays there. The answer comes at once; `jobs:subscribe` shows how far it is.',
      access: everyScope('backup:execute'),
      body: NewSqlBackup,
      response: SqlWork,
      status: 202,
      idempotent: true,
      errors: ['capability_missing'],
      handler: ({ ctx, body }) => backUpDatabase(ctx, body, parts),
      audit: {
        action: 'backup.mssql.backup',
        resource: 'device',
        note: (work, { body: { backupType, outputPath, copyOnly } }) => {
          const { details, ...subject } = about(work);
          return { ...subject, details: { ...details, backupType, outputPath, copyOnly } };
        },
      },
    }),
    route({
      method: 'post',
      path: '/backup/mssql/restore',
      summary: 'Restore a database of SQL Server from a file',
      description: 'A full backup becomes a new database; nothing that is there is replaced.',
      access: everyScope('recovery:execute'),
      body: NewSqlRestore,
      response: SqlWork,
      status: 202,
      idempotent: true,
      errors: ['capability_missing'],
      handler: ({ ctx, body }) => restoreDatabaseFile(ctx, body, parts),
      audit: {
        action: 'backup.mssql.restore',
        resource: 'device',
        note: (work, { body: { backupFile, backupType, noRecovery, stopAt = null } }) => {
          const { details, ...subject } = about(work);
          return { ...subject, details: { ...details, backupFile, backupType, noRecovery, stopAt } };
        },
      },
    }),
  ],
});
