import { z } from 'zod';
import { Id } from '../../platform/http/fields.ts';
import {
  DatabaseBackupType,
  SqlBackupSet,
  SqlDatabase,
  SqlInstance,
  SqlPath,
  VssStatus,
} from '../../protocol/index.ts';

export const DeviceVss = z
  .object({ data: VssStatus.extend({ deviceId: z.uuid(), checkedAt: z.iso.datetime() }) })
  .meta({ id: 'DeviceVss' });
export type DeviceVss = z.infer<typeof DeviceVss>;

/** Databases of Microsoft SQL Server, whose backups are files that its service writes. */

const where = { deviceId: Id, instance: SqlInstance };

export const NewSqlBackup = z
  .strictObject({
    ...where,
    database: SqlDatabase,
    backupType: DatabaseBackupType,
    copyOnly: z
      .boolean()
      .default(false)
      .describe('A full backup which the differential ones of others ignore.'),
    outputPath: SqlPath.describe(
      'A folder as the service of SQL Server sees it, which writes there with its own account. The file gets a new name.',
    ),
  })
  .refine(({ backupType, copyOnly }) => !copyOnly || backupType === 'full', {
    message: 'is for full backups only',
    path: ['copyOnly'],
  });
export type NewSqlBackup = z.infer<typeof NewSqlBackup>;

export const NewSqlRestore = z
  .strictObject({
    ...where,
    backupFile: SqlPath.describe('A file as the service of SQL Server sees it.'),
    targetDatabase: SqlDatabase.describe('For a full backup, a new name: no database is replaced.'),
    backupType: DatabaseBackupType.default('full').describe(
      '`differential` and `log` go on with a database that was restored with `noRecovery`.',
    ),
    noRecovery: z.boolean().default(false).describe('True where more backups follow.'),
    stopAt: z
      .string()
      .regex(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,3})?$/, 'must be such as 2026-01-31T08:00:00')
      .optional()
      .describe('For a log: the end, by the clock of the machine.'),
  })
  .refine(({ backupType, stopAt }) => stopAt === undefined || backupType === 'log', {
    message: 'is for logs only',
    path: ['stopAt'],
  });
export type NewSqlRestore = z.infer<typeof NewSqlRestore>;

export const SqlWork = z
  .object({
    id: z.uuid().describe('The id of the command, also on `jobs:subscribe`.'),
    orgId: z.uuid(),
    deviceId: z.uuid(),
    type: z.enum(['backup', 'restore']),
    instance: z.string(),
    database: z.string(),
    status: z.string(),
  })
  .meta({ id: 'SqlWork' });
export type SqlWork = z.infer<typeof SqlWork>;

export const SqlChainQuery = z.object({ ...where, database: SqlDatabase });

export const SqlChains = z
  .object({
    data: z.object({
      deviceId: z.uuid(),
      instance: z.string(),
      database: z.string(),
      recoveryModel: z.string(),
      chains: z.array(
        z.object({
          full: SqlBackupSet,
          differentials: z.array(SqlBackupSet),
          logs: z.array(SqlBackupSet),
          hasGap: z.boolean().describe('A log is missing, and later ones are there.'),
          recoverableTo: z.string(),
          isOurs: z.boolean(),
        }),
      ),
      chainCount: z.number().int().describe('How many there are. The twenty newest are listed.'),
      warnings: z.array(
        z.object({ code: z.enum(['FOREIGN_FULL', 'LOG_GAP', 'DAMAGED', 'NO_FULL']), message: z.string() }),
      ),
    }),
  })
  .meta({ id: 'SqlChains' });
