import { z } from 'zod';
import { FailedSource } from '../../failed-source.ts';
import { atMost, reportedLine, reportedText, text } from '../../primitives.ts';
import {
  BackupRepositoryAccess,
  BackupResult,
  BACKUP_TIMEOUT_SECONDS,
  Count,
  EngineId,
  NamedPaths,
} from './backup-parts.ts';
import type { CommandTable } from '../shape.ts';
import { SqlDatabase, SqlPath } from '../sql-server.ts';
import { DatabaseBackupType, DatabaseDetails, DatabaseEngine } from './snapshot-details.ts';

/** Backups of whole database servers on a device (docs/decisions/backup-databases.md). */

/** A machine with more servers than this is not described whole. */
export const DATABASE_INSTANCES_MAX = 64;

/** A database server that runs on a device. */
export const DatabaseInstance = z.object({
  engine: DatabaseEngine,
  instance: reportedText(255).describe(
    'What a configuration names: where the server listens on the machine.',
  ),
  version: reportedLine(255),
  port: z.number().int().min(0).max(65_535).nullable(),
  dataFolder: reportedText(4096, 0).nullable(),
  databases: atMost(1000, z.object({ name: reportedText(255, 0), sizeBytes: Count.nullable() })).describe(
    'The first 1000. Names are as the server has them.',
  ),
  problems: atMost(20, z.object({ code: reportedLine(64), message: reportedText(500, 0) })).describe(
    'Why it cannot be backed up as it is, such as a program that is missing.',
  ),
});
export type DatabaseInstance = z.infer<typeof DatabaseInstance>;

/** A chain of more logs is restored too slowly; the server begins a new one before that. */
export const CHAIN_PARTS_MAX = 2000;

/** One snapshot of the chain that is restored. */
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
      failed: atMost(DatabaseEngine.options.length, FailedSource)
        .optional()
        .describe('Engines whose servers could not be looked for. What is known of them stays.'),
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
      instance: text(255).optional().describe('The only one of the engine where it is left out.'),
      databases: z
        .array(text(255))
        .min(1)
        .max(1000)
        .optional()
        .describe('Of engines that back up single databases.'),
      spoolPath: SqlPath.optional().describe(
        'Of SQL Server: a folder in which a backup lies until it is in the repository.',
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
      instance: text(255, 0).describe('The one that was backed up.'),
      version: text(255, 0).describe('Of the server that was backed up.'),
      branch: DatabaseDetails.shape.branch,
      parts: z
        .array(ChainPart)
        .min(1)
        .max(CHAIN_PARTS_MAX)
        .describe('In the order in which they are applied.'),
      databases: z.array(text(255, 0)).max(1000).optional().describe('Those that were backed up.'),
      targetPath: text(4096).describe(
        'An empty folder that belongs to the user of the database. Of SQL Server: a folder in which the backups lie while they are restored.',
      ),
      targetDatabase: SqlDatabase.optional().describe('Of SQL Server: the name of the new database.'),
      pointInTime: z.iso
        .datetime({ offset: true })
        .optional()
        .describe('The end of the last part where it is left out.'),
      noRecovery: z.boolean().describe('The folder is left as it is before its recovery.'),
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
        recoveredTo: reportedText(40).nullable().describe('The instant of the last transaction that it has.'),
        position: DatabaseDetails.shape.to,
      }),
    }),
  },
} as const satisfies CommandTable;
