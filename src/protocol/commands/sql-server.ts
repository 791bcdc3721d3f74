import { z } from 'zod';
import { atMost, reportedLine, reportedText, text } from '../primitives.ts';
import { BACKUP_TIMEOUT_SECONDS, Count } from './backups/backup-parts.ts';
import { DatabaseBackupType } from './backups/snapshot-details.ts';
import type { CommandTable } from './shape.ts';

/** Backups of single databases of Microsoft SQL Server into files that its service writes. */

/** The name of an instance as Windows registers it: `MSSQLSERVER` is the default one. */
export const SqlInstance = z
  .string()
  .regex(/^[\p{L}_][\p{L}\p{N}_$#]{0,31}$/u, 'must be the name of an instance, such as MSSQLSERVER');

export const SqlDatabase = text(128);

/** A folder or file as the service of SQL Server sees it, which has an account of its own. */
export const SqlPath = text(1000).refine(
  (path) =>
    (/^[A-Za-z]:[\\/][^\\/]/.test(path) || /^\\\\[^\\/]+\\[^\\/]+\\[^\\/]/.test(path)) &&
    !/[\p{Cc}<>"|?*]/u.test(path) &&
    !path.slice(2).includes(':') &&
    !path.split(/[\\/]/).includes('..'),
  String.raw`must be an absolute path such as D:\Backups or \\server\share\folder, without ..`,
);

/** 25 digits, which no number of JavaScript holds. */
const Lsn = z.string().regex(/^\d{1,25}$/);
const Guid = z.string().regex(/^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$/);

export const SQL_HISTORY_MAX = 1000;

/** One row of `msdb.dbo.backupset`: the history that SQL Server itself keeps, of everybody's backups. */
export const SqlBackupSet = z.object({
  id: z.number().int().nonnegative(),
  uuid: Guid,
  backupType: DatabaseBackupType,
  firstLsn: Lsn,
  lastLsn: Lsn,
  isCopyOnly: z.boolean(),
  isDamaged: z.boolean(),
  fork: Guid.nullable(),
  differentialBase: Guid.nullable(),
  finishedAt: reportedLine(40).describe('By the clock of the machine, without an offset.'),
  sizeBytes: Count.nullable(),
  file: reportedText(1000, 0).nullable(),
});
export type SqlBackupSet = z.infer<typeof SqlBackupSet>;

/** Why SQL Server did not do it. */
export const SqlErrorCode = {
  programMissing: 'SQLCMD_MISSING',
  unreachable: 'SQL_UNREACHABLE',
  databaseMissing: 'DATABASE_MISSING',
  databaseExists: 'DATABASE_EXISTS',
  chainBroken: 'CHAIN_BROKEN',
  simpleRecovery: 'RECOVERY_MODEL',
  pathUnusable: 'PATH_UNUSABLE',
  noRoom: 'TARGET_FULL',
  denied: 'SQL_DENIED',
  failed: 'SQL_FAILED',
} as const;

const timeoutSeconds = z.number().int().min(1).max(BACKUP_TIMEOUT_SECONDS);

export const SQL_SERVER_COMMANDS = {
  'backup.mssql-history': {
    payload: z.object({ instance: SqlInstance, database: SqlDatabase }),
    output: z.object({
      sets: atMost(SQL_HISTORY_MAX, SqlBackupSet).describe('The newest.'),
      recoveryModel: reportedLine(60),
    }),
  },
  'backup.mssql-backup': {
    lane: 'bulk',
    isOfServer: true,
    payload: z.object({
      instance: SqlInstance,
      database: SqlDatabase,
      backupType: DatabaseBackupType,
      copyOnly: z.boolean().describe('A full backup that no differential one is based on.'),
      outputPath: SqlPath.describe('A folder. The file gets a name of its own.'),
      timeoutSeconds,
    }),
    output: z.object({
      file: reportedText(1200, 0),
      set: SqlBackupSet,
      seconds: z.number().nonnegative(),
    }),
  },
  'backup.mssql-restore': {
    lane: 'bulk',
    isOfServer: true,
    payload: z.object({
      restoreId: z.uuid(),
      instance: SqlInstance,
      backupFile: SqlPath,
      backupType: DatabaseBackupType,
      targetDatabase: SqlDatabase,
      noRecovery: z.boolean().describe('More backups follow: the database stays in the state RESTORING.'),
      stopAt: z
        .string()
        .regex(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,3})?$/)
        .optional()
        .describe('Of a log: by the clock of the machine, without an offset.'),
      timeoutSeconds,
    }),
    output: z.object({
      database: reportedText(128, 0),
      state: reportedLine(60).describe('As SQL Server names it: ONLINE or RESTORING.'),
      seconds: z.number().nonnegative(),
    }),
  },
} as const satisfies CommandTable;
