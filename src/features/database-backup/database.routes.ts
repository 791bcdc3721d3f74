import type { DeviceHub } from '../../../hub/index.ts';
import { everyScope } from '../../../platform/http/access.ts';
import { pageOf } from '../../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../../platform/http/route.ts';
import { noteOfDevice } from '../../devices/index.ts';
import { LIVE_ERRORS } from '../access/ask-device.ts';
import { readOfDevice, readOfDevices } from '../access/inventory-read.ts';
import {
  DeviceInstanceQuery,
  DeviceParams,
  FoundInstance,
  InstanceQuery,
  InstancesOfDevice,
} from '../databases/databases.schema.ts';
import { instancesOfDevice, listInstances } from '../databases/instance.service.ts';
import { NewSqlBackup, NewSqlRestore, SqlChainQuery, SqlChains, SqlWork } from './sql-server.schema.ts';
import { backUpDatabase, readChains, restoreDatabaseFile } from './sql-server.service.ts';

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
      errors: LIVE_ERRORS,
      handler: ({ ctx, query }) => listInstances(ctx, { ...query, engine: ENGINE }, parts),
      audit: readOfDevices('instances of SQL Server'),
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
      errors: LIVE_ERRORS,
      handler: ({ ctx, params, query }) =>
        instancesOfDevice(ctx, params.deviceId, { ...query, engine: ENGINE }, parts),
      audit: readOfDevice('instances of SQL Server'),
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
      errors: LIVE_ERRORS,
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
