import { MARK, REFUSAL } from './answers.ts';

/**
 * The scripts for SQL Server. Whatever comes from outside stands in them as the hexadecimal digits of its bytes: so no
 * quote, bracket, `$(…)` or line `GO` in a name means anything to sqlcmd or to SQL Server. Names that have to become part
 * of a statement are quoted there by SQL Server itself.
 */

/** An expression with the value of the text. */
export const textValue = (text: string): string =>
  `CONVERT(nvarchar(max), 0x${Buffer.from(text, 'utf16le').toString('hex').toUpperCase()})`;

const SETTINGS = 'SET NOCOUNT ON;\nSET XACT_ABORT ON;\n';

const answer = (select: string) => `DECLARE @answer nvarchar(max) = (${select});
SELECT N'${MARK}' + ISNULL(@answer, N'null');\n`;

const refuse = (code: string, sentence: string) => `THROW 50000, N'${REFUSAL}${code}:${sentence}', 1;`;

/** LSNs as text: no number of JavaScript holds them. */
const SET_COLUMNS = `s.backup_set_id AS id, CONVERT(char(36), s.backup_set_uuid) AS uuid,
  CASE s.type WHEN 'D' THEN 'full' WHEN 'I' THEN 'differential' ELSE 'log' END AS backupType,
  CONVERT(varchar(30), s.first_lsn) AS firstLsn, CONVERT(varchar(30), s.last_lsn) AS lastLsn,
  CONVERT(bit, s.is_copy_only) AS isCopyOnly, CONVERT(bit, ISNULL(s.is_damaged, 0)) AS isDamaged,
  CONVERT(char(36), s.last_recovery_fork_guid) AS fork,
  CONVERT(char(36), s.differential_base_guid) AS differentialBase,
  CONVERT(varchar(30), s.backup_finish_date, 126) AS finishedAt,
  CONVERT(bigint, s.backup_size) AS sizeBytes,
  (SELECT TOP (1) f.physical_device_name FROM msdb.dbo.backupmediafamily f
    WHERE f.media_set_id = s.media_set_id ORDER BY f.family_sequence_number) AS [file]`;

export const instanceSql = (databasesMax: number): string =>
  `${SETTINGS}${answer(`SELECT
  CONVERT(nvarchar(128), SERVERPROPERTY('ProductVersion')) AS version,
  CONVERT(nvarchar(128), SERVERPROPERTY('Edition')) AS edition,
  CONVERT(nvarchar(400), SERVERPROPERTY('InstanceDefaultDataPath')) AS dataFolder,
  (SELECT TOP (${databasesMax}) d.name, d.state_desc AS state, d.recovery_model_desc AS recoveryModel,
    (SELECT CONVERT(bigint, SUM(CONVERT(bigint, m.size))) * 8192 FROM sys.master_files m
      WHERE m.database_id = d.database_id) AS sizeBytes
    FROM sys.databases d WHERE d.name <> N'tempdb' ORDER BY d.name FOR JSON PATH) AS databases
  FOR JSON PATH, WITHOUT_ARRAY_WRAPPER, INCLUDE_NULL_VALUES`)}`;

const declareDatabase = (database: string) => `DECLARE @db sysname = ${textValue(database)};
IF DB_ID(@db) IS NULL ${refuse('DATABASE_MISSING', 'The instance has no such database.')}\n`;

export const historySql = (database: string, max: number): string =>
  `${SETTINGS}${declareDatabase(database)}${answer(`SELECT
  (SELECT d.recovery_model_desc FROM sys.databases d WHERE d.name = @db) AS recoveryModel,
  (SELECT TOP (${max}) ${SET_COLUMNS}
    FROM msdb.dbo.backupset s WHERE s.database_name = @db AND s.type IN ('D', 'I', 'L')
    ORDER BY s.backup_set_id DESC FOR JSON PATH, INCLUDE_NULL_VALUES) AS sets
  FOR JSON PATH, WITHOUT_ARRAY_WRAPPER, INCLUDE_NULL_VALUES`)}`;

export interface WantedBackup {
  database: string;
  file: string;
  backupType: 'full' | 'differential' | 'log';
  copyOnly: boolean;
}

/** Not in a TRY block, where only the last error of a backup is known, which says nothing. */
export function backupSql({ database, file, backupType, copyOnly }: WantedBackup): string {
  const options = [
    'CHECKSUM',
    'FORMAT',
    'INIT',
    ...(backupType === 'differential' ? ['DIFFERENTIAL'] : []),
    ...(copyOnly && backupType === 'full' ? ['COPY_ONLY'] : []),
  ].join(', ');
  const what = backupType === 'log' ? 'LOG' : 'DATABASE';
  return `${SETTINGS}${declareDatabase(database)}DECLARE @file nvarchar(1200) = ${textValue(file)};
BACKUP ${what} @db TO DISK = @file WITH ${options};
${answer(`SELECT TOP (1) ${SET_COLUMNS}
  FROM msdb.dbo.backupset s JOIN msdb.dbo.backupmediafamily m ON m.media_set_id = s.media_set_id
  WHERE s.database_name = @db AND m.physical_device_name = @file
  ORDER BY s.backup_set_id DESC FOR JSON PATH, WITHOUT_ARRAY_WRAPPER, INCLUDE_NULL_VALUES`)}`;
}

/** What the history of SQL Server says of a file that was made before; `null`: nothing. */
export const setOfFileSql = (database: string, file: string): string =>
  `${SETTINGS}${declareDatabase(database)}DECLARE @file nvarchar(1200) = ${textValue(file)};
${answer(`SELECT TOP (1) ${SET_COLUMNS}
  FROM msdb.dbo.backupset s JOIN msdb.dbo.backupmediafamily m ON m.media_set_id = s.media_set_id
  WHERE s.database_name = @db AND m.physical_device_name = @file
  ORDER BY s.backup_set_id DESC FOR JSON PATH, WITHOUT_ARRAY_WRAPPER, INCLUDE_NULL_VALUES`)}`;

/** Refuses a name that is taken. */
export const freeNameSql = (database: string): string =>
  `${SETTINGS}DECLARE @db sysname = ${textValue(database)};
IF DB_ID(@db) IS NOT NULL ${refuse('DATABASE_EXISTS', 'The instance has a database with this name.')}
${answer(`SELECT CONVERT(nvarchar(128), SERVERPROPERTY('ProductVersion')) AS version
  FOR JSON PATH, WITHOUT_ARRAY_WRAPPER`)}`;

/** Removes a database that waits for more backups, and no other one. */
export const dropRestoringSql = (database: string): string =>
  `${SETTINGS}DECLARE @db sysname = ${textValue(database)};
DECLARE @drop nvarchar(400) = N'DROP DATABASE ' + QUOTENAME(@db);
IF EXISTS (SELECT 1 FROM sys.databases d WHERE d.name = @db AND d.state = 1) EXEC sp_executesql @drop;
${answer(`SELECT COUNT(*) AS remaining FROM sys.databases d WHERE d.name = @db
  FOR JSON PATH, WITHOUT_ARRAY_WRAPPER`)}`;

export interface WantedRestore {
  database: string;
  file: string;
  backupType: 'full' | 'differential' | 'log';
  noRecovery: boolean;
  stopAt?: string | undefined;
  /** What the files of a new database begin with: letters, digits and `_`. */
  filePrefix: string;
}

/** The columns that RESTORE FILELISTONLY has since SQL Server 2016. */
const FILE_LIST = `CREATE TABLE #files (LogicalName nvarchar(128), PhysicalName nvarchar(260), Type char(1),
  FileGroupName nvarchar(128), Size numeric(20, 0), MaxSize numeric(20, 0), FileId bigint, CreateLSN numeric(25, 0),
  DropLSN numeric(25, 0), UniqueId uniqueidentifier, ReadOnlyLSN numeric(25, 0), ReadWriteLSN numeric(25, 0),
  BackupSizeInBytes bigint, SourceBlockSize int, FileGroupId int, LogGroupGUID uniqueidentifier,
  DifferentialBaseLSN numeric(25, 0), DifferentialBaseGUID uniqueidentifier, IsReadOnly bit, IsPresent bit,
  TDEThumbprint varbinary(32), SnapshotUrl nvarchar(360));
INSERT #files EXEC sp_executesql N'RESTORE FILELISTONLY FROM DISK = @file', N'@file nvarchar(1200)', @file;`;

/**
 * A full backup becomes a new database, whose files get names of their own: nothing that is there is replaced. The others
 * go on with one that is in the state RESTORING.
 */
export function restoreSql(wanted: WantedRestore): string {
  const { database, file, backupType, noRecovery, stopAt, filePrefix } = wanted;
  if (!/^\w{1,60}$/.test(filePrefix)) throw new Error('the prefix of files must be letters, digits and _');
  if (stopAt !== undefined && !/^[\d:.T-]{19,23}$/.test(stopAt)) {
    throw new Error('the instant must be ISO 8601');
  }
  const end = noRecovery ? 'NORECOVERY' : 'RECOVERY';
  const stop = backupType === 'log' && stopAt !== undefined ? `, STOPAT = '${stopAt}'` : '';
  const begin = `${SETTINGS}DECLARE @db sysname = ${textValue(database)};
DECLARE @file nvarchar(1200) = ${textValue(file)};
DECLARE @state int = (SELECT d.state FROM sys.databases d WHERE d.name = @db);\n`;
  const after = answer(`SELECT d.state_desc AS state FROM sys.databases d WHERE d.name = @db
  FOR JSON PATH, WITHOUT_ARRAY_WRAPPER`);
  if (backupType !== 'full') {
    const what = backupType === 'log' ? 'LOG' : 'DATABASE';
    return `${begin}IF @state IS NULL ${refuse('DATABASE_MISSING', 'Restore the full backup first, with noRecovery.')}
IF @state <> 1 ${refuse('CHAIN_BROKEN', 'The database is not in the state RESTORING.')}
RESTORE ${what} @db FROM DISK = @file WITH ${end}${stop};
${after}`;
  }
  return `${begin}IF @state IS NOT NULL ${refuse('DATABASE_EXISTS', 'The instance has a database with this name.')}
${FILE_LIST}
DECLARE @data nvarchar(400) = CONVERT(nvarchar(400), SERVERPROPERTY('InstanceDefaultDataPath'));
DECLARE @log nvarchar(400) = CONVERT(nvarchar(400), SERVERPROPERTY('InstanceDefaultLogPath'));
DECLARE @moves nvarchar(max) = N'';
SELECT @moves = @moves + N', MOVE N''' + REPLACE(LogicalName, N'''', N'''''') + N''' TO N'''
  + REPLACE(CASE Type WHEN 'L' THEN @log ELSE @data END, N'''', N'''''') + N'${filePrefix}_'
  + CONVERT(nvarchar(20), FileId) + CASE Type WHEN 'L' THEN N'.ldf' WHEN 'D' THEN N'.mdf' ELSE N'' END + N''''
FROM #files;
DECLARE @sql nvarchar(max) = N'RESTORE DATABASE @db FROM DISK = @file WITH CHECKSUM, ${end}' + @moves;
EXEC sp_executesql @sql, N'@db sysname, @file nvarchar(1200)', @db, @file;
${after}`;
}
