import { z } from 'zod';
import { FailedSource, atMost, reportedLine, reportedText, text } from '../primitives.ts';
import {
  DATABASES_MAX,
  BackupRepositoryAccess,
  BackupResult,
  BACKUP_TIMEOUT_SECONDS,
  Count,
  EngineId,
  NamedPaths,
  DatabaseBackupType,
  DatabaseDetails,
  DatabaseEngine,
} from './snapshots.ts';
import type { CommandTable } from './shape.ts';

/** Volume shadow copies (VSS), with which Windows backs up open files. */

const WriterId = z.string().regex(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);

export const VSS_WRITERS_MAX = 500;
export const VSS_PROVIDERS_MAX = 50;

export const VssWriter = z.object({
  name: reportedLine(255),
  writerId: WriterId,
  instanceId: WriterId.nullable(),
  state: z.number().int().min(0).max(255).describe('The number of VSS_WRITER_STATE.'),
  status: z.enum(['stable', 'waiting', 'failed', 'unknown']),
  lastError: reportedLine(500).describe('In the language of the machine. Set even if there was none.'),
});
export type VssWriter = z.infer<typeof VssWriter>;

export const VssProvider = z.object({
  name: reportedLine(255),
  providerId: WriterId,
  type: reportedLine(255).describe('In the language of the machine.'),
  version: reportedLine(50),
});
export type VssProvider = z.infer<typeof VssProvider>;

export const VssStatus = z.object({
  status: z
    .enum(['ready', 'busy', 'failed', 'unknown'])
    .describe(
      '`failed`: at least one writer has failed. `busy`: at least one waits for a backup to go on. `unknown`: Windows listed no writers, or one in an unknown state.',
    ),
  writers: z.array(VssWriter).max(VSS_WRITERS_MAX),
  writerCount: Count.optional().describe('The total number, if more exist than are listed.'),
  providers: z.array(VssProvider).max(VSS_PROVIDERS_MAX),
  providerCount: Count.optional().describe('The total number, if more exist than are listed.'),
});
export type VssStatus = z.infer<typeof VssStatus>;

/** Why a device cannot report its shadow copies. */
export const VssErrorCode = {
  elevationNeeded: 'ELEVATION_NEEDED',
  timedOut: 'VSS_TIMED_OUT',
  failed: 'VSS_FAILED',
} as const;

export const SHADOW_COPY_COMMANDS = {
  'backup.vss-status': { payload: z.object({}), output: VssStatus },
} as const satisfies CommandTable;

/** Backups of single Microsoft SQL Server databases into files that its service writes. */

/** The name of an instance as Windows registers it: `MSSQLSERVER` is the default one. */
export const SqlInstance = z
  .string()
  .regex(/^[\p{L}_][\p{L}\p{N}_$#]{0,31}$/u, 'must be the name of an instance, such as MSSQLSERVER');

export const SqlDatabase = text(128);

/** A folder or file from the point of view of the SQL Server service, which has its own account. */
export const SqlPath = text(1000).refine(
  (path) =>
    (/^[A-Za-z]:[\\/][^\\/]/.test(path) || /^\\\\[^\\/]+\\[^\\/]+\\[^\\/]/.test(path)) &&
    !/[\p{Cc}<>"|?*]/u.test(path) &&
    !path.slice(2).includes(':') &&
    !path.split(/[\\/]/).includes('..'),
  String.raw`must be an absolute path such as D:\Backups or \\server\share\folder, without ..`,
);

/** 25 digits, which a JavaScript number cannot represent exactly. */
const Lsn = z.string().regex(/^\d{1,25}$/);
const Guid = z.string().regex(/^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$/);

export const SQL_HISTORY_MAX = 1000;

/** One row of `msdb.dbo.backupset`: SQL Server's own history of backups, including those of other programs. */
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
  finishedAt: reportedLine(40).describe('In the time of the machine, without an offset.'),
  sizeBytes: Count.nullable(),
  file: reportedText(1000, 0).nullable(),
});
export type SqlBackupSet = z.infer<typeof SqlBackupSet>;

/** Error codes of SQL Server commands. */
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
      copyOnly: z.boolean().describe('A full backup that is not the base of differential ones.'),
      outputPath: SqlPath.describe('A folder. The file gets a unique name.'),
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
        .describe('For a log: in the time of the machine, without an offset.'),
      timeoutSeconds,
    }),
    output: z.object({
      database: reportedText(128, 0),
      state: reportedLine(60).describe('As SQL Server names it: ONLINE or RESTORING.'),
      seconds: z.number().nonnegative(),
    }),
  },
} as const satisfies CommandTable;

/** Backups of whole database servers on a device (docs/decisions/backup-databases.md). */

/** A machine with more servers lists only some, and their total number. */
export const DATABASE_INSTANCES_MAX = 64;

/** A database server that runs on a device. */
export const DatabaseInstance = z.object({
  engine: DatabaseEngine,
  instance: reportedText(255).describe(
    'The identifier in a configuration: where the server listens on the machine.',
  ),
  version: reportedLine(255),
  port: z.number().int().min(0).max(65_535).nullable(),
  dataFolder: reportedText(4096, 0).nullable(),
  databases: atMost(
    DATABASES_MAX,
    z.object({ name: reportedText(255, 0), sizeBytes: Count.nullable() }),
  ).describe(`The first ${DATABASES_MAX}. Names are as the server has them.`),
  databaseCount: z.number().int().optional().describe('The total number, if more exist than are listed.'),
  problems: atMost(20, z.object({ code: reportedLine(64), message: reportedText(500, 0) })).describe(
    'Why it cannot be backed up at present, such as a missing program.',
  ),
});
export type DatabaseInstance = z.infer<typeof DatabaseInstance>;

/** A chain with more logs would take too long to restore; the server starts a new one before that. */
export const CHAIN_PARTS_MAX = 2000;

/** One snapshot of a restored chain. */
const ChainPart = z.object({
  snapshotId: EngineId,
  backupType: DatabaseBackupType,
  from: DatabaseDetails.shape.from,
  to: DatabaseDetails.shape.to,
  sizeBytes: Count.nullable(),
});

export const DATABASE_COMMANDS = {
  'backup.databases': {
    payload: z.object({}),
    output: z.object({
      instances: atMost(DATABASE_INSTANCES_MAX, DatabaseInstance),
      instanceCount: Count.optional().describe('The total number, if more exist than are listed.'),
      failed: atMost(DatabaseEngine.options.length, FailedSource)
        .optional()
        .describe('Engines whose servers could not be searched. Their known servers are kept.'),
    }),
  },
  'backup.database': {
    lane: 'bulk',
    isOfServer: true,
    payload: z.object({
      jobId: z.uuid(),
      repository: BackupRepositoryAccess,
      host: text(255).describe('The name under which the snapshot is stored.'),
      engine: DatabaseEngine,
      instance: text(255).optional().describe('Default: the only one of the engine.'),
      databases: z
        .array(text(255))
        .min(1)
        .max(1000)
        .optional()
        .describe('For engines that back up single databases.'),
      spoolPath: SqlPath.optional().describe(
        'For SQL Server: a folder for backups until they are in the repository.',
      ),
      backupType: DatabaseBackupType,
      chainId: z.uuid().describe('The same for all backups into one repository.'),
      full: DatabaseDetails.nullable().describe('The full backup that this one needs.'),
      previous: DatabaseDetails.nullable().describe('The backup that a log continues.'),
      uploadKiBps: z.number().int().positive().optional(),
      cpuPercent: z.number().int().min(1).max(100).optional(),
      timeoutSeconds: z.number().int().min(1).max(BACKUP_TIMEOUT_SECONDS),
    }),
    output: BackupResult,
  },
  'backup.database-restore': {
    lane: 'bulk',
    isOfServer: true,
    payload: z.object({
      restoreId: z.uuid(),
      repository: BackupRepositoryAccess,
      engine: DatabaseEngine,
      instance: text(255, 0).describe('The instance that was backed up.'),
      version: text(255, 0).describe('Version of the server that was backed up.'),
      branch: DatabaseDetails.shape.branch,
      parts: z
        .array(ChainPart)
        .min(1)
        .max(CHAIN_PARTS_MAX)
        .describe('In the order in which they are applied.'),
      databases: z.array(text(255, 0)).max(1000).optional().describe('The databases that were backed up.'),
      targetPath: text(4096).describe(
        'An empty folder that belongs to the user of the database. For SQL Server: a folder for the backups during the restore.',
      ),
      targetDatabase: SqlDatabase.optional().describe('For SQL Server: the name of the new database.'),
      pointInTime: z.iso.datetime({ offset: true }).optional().describe('Default: the end of the last part.'),
      noRecovery: z.boolean().describe('Leaves the folder in the state before its recovery.'),
      timeoutSeconds: z.number().int().min(1).max(BACKUP_TIMEOUT_SECONDS),
    }),
    output: z.object({
      status: z.literal('completed'),
      targetPath: reportedText(4096, 0),
      filesRestored: Count,
      bytesRestored: Count,
      filesSkipped: Count,
      seconds: z.number().nonnegative(),
      failed: NamedPaths,
      database: z.object({
        isRecovered: z.boolean().describe('False: it is recovered when its server starts with the folder.'),
        recoveredTo: reportedText(40).nullable().describe('The time of the last recovered transaction.'),
        position: DatabaseDetails.shape.to,
      }),
    }),
  },
} as const satisfies CommandTable;
