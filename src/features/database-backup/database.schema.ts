import { z } from 'zod';
import { clock } from '../../clock.ts';
import { Id, text, Timestamp } from '../../platform/http/fields.ts';
import { PageQuery, pageOf } from '../../platform/http/pagination.ts';
import {
  Count,
  DATABASE_INSTANCES_MAX,
  DatabaseBackupType,
  DatabaseDetails,
  DatabaseEngine,
  DatabaseInstance,
  Instant,
  SqlDatabase,
} from '../../protocol/index.ts';
import { AsOf } from '../backup/index.ts';

export const DeviceParams = z.object({ deviceId: Id });

const Refresh = z.stringbool().optional();

export const InstanceQuery = PageQuery.extend({
  orgId: Id.optional(),
  deviceId: Id.optional(),
  engine: DatabaseEngine.optional(),
  refresh: Refresh.describe('Asks the device first. It needs `deviceId`.'),
}).refine(({ refresh = false, deviceId }) => !refresh || deviceId !== undefined, {
  path: ['deviceId'],
  message: 'is required to refresh: one device is asked at a time',
});
export type InstanceQuery = z.infer<typeof InstanceQuery>;

export const DeviceInstanceQuery = z.object({
  engine: DatabaseEngine.optional(),
  refresh: Refresh.describe('Asks the device first. One that has never been asked is asked in any case.'),
});
export type DeviceInstanceQuery = z.infer<typeof DeviceInstanceQuery>;

export const FoundInstance = DatabaseInstance.extend({
  id: z.uuid(),
  orgId: z.uuid(),
  deviceId: z.uuid(),
  lastDiscoveredAt: Timestamp.describe('When the device last listed it.'),
  instanceCount: Count.optional().describe(
    `How many servers the device has, if it has more than the ${DATABASE_INSTANCES_MAX} that it lists.`,
  ),
  unreadBecause: z
    .string()
    .optional()
    .describe(
      'Present if the device could not look for servers of this engine when it was last asked, and why. This is what it listed before.',
    ),
}).meta({ id: 'BackupDatabaseInstance' });

const failed = z
  .array(z.object({ engine: z.string(), message: z.string() }))
  .optional()
  .describe('Present if the device was asked: the engines whose servers it could not look for.');

export const InstancesOfDevice = z.object({ data: z.array(FoundInstance), failed });
export const PageOfInstances = pageOf(FoundInstance).extend({ failed });

export const ChainQuery = PageQuery.extend({
  orgId: Id.optional(),
  deviceId: Id.optional(),
  configId: Id.optional(),
});
export type ChainQuery = z.infer<typeof ChainQuery>;

const ChainSnapshot = z.object({
  id: z.uuid(),
  backupType: DatabaseBackupType,
  createdAt: Timestamp.describe('When the store received it.'),
  from: z.string().nullable(),
  to: z.string().nullable(),
  recoverableTo: z.string().nullable(),
  sizeBytes: z.number().nullable(),
});

const Chain = z.object({
  id: z.uuid().describe('The id of its full backup.'),
  engine: DatabaseEngine,
  instance: z.string(),
  version: z.string(),
  branch: z.string().nullable(),
  databases: z.array(z.string()),
  databaseCount: DatabaseDetails.shape.databaseCount,
  ranges: z
    .array(z.object({ from: Timestamp, to: Timestamp }))
    .describe('Every point in time within these can be restored.'),
  snapshots: z.array(ChainSnapshot).describe('The full backup first.'),
});

export const BackupDatabaseChains = z
  .object({
    repositoryId: z.uuid(),
    orgId: z.uuid(),
    deviceId: z.uuid(),
    configId: z.uuid().nullable(),
    isVault: z.boolean().describe('It holds copies.'),
    chains: z.array(Chain).describe('The newest first.'),
    broken: z
      .array(z.object({ snapshotId: z.uuid(), reason: z.string() }))
      .describe('Snapshots that cannot be restored, the first 100.'),
    brokenTotal: z.number().int().describe('How many there are, also beyond those that are listed.'),
  })
  .meta({ id: 'BackupDatabaseChains' });

export const NewDatabaseRestore = z.strictObject({
  snapshotId: Id.describe('With it comes everything that it needs: the full backup, and the logs before it.'),
  deviceId: Id.optional().describe(
    'Default: the device that was backed up. Another one of its organization.',
  ),
  targetPath: text(4000).describe(
    'An absolute path: an empty folder on the device that belongs to the user of the database. Of SQL Server: a folder that its service reads, in which the backups lie while they are restored.',
  ),
  targetDatabase: SqlDatabase.optional().describe(
    'For SQL Server, and needed there: the name of the new database. Nothing that is there is replaced.',
  ),
  pointInTime: Instant.refine((at) => Date.parse(at) <= clock.now(), 'must not lie in the future')
    .optional()
    .describe('With a time zone. Default: the end of the snapshot.'),
  noRecovery: z
    .boolean()
    .default(false)
    .describe('The files are laid ready, and recovered when the server of the database starts with them.'),
  asOf: AsOf,
});
export type NewDatabaseRestore = z.infer<typeof NewDatabaseRestore>;
