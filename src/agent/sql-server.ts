import { randomBytes } from 'node:crypto';
import { rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { z } from 'zod';
import { clock } from '../clock.ts';
import { SqlErrorCode } from '../protocol/index.ts';
import { AgentError } from './core/agent-error.ts';
import { openPrivateFolder } from './os/files/private-folder.ts';
import { streamText } from './os/child-process.ts';
import { printable } from './core/plain-text.ts';

/** Parses the output of sqlcmd: its words are in the language of the server, its numbers are not. */

export const MARK = 'MUSTER-ANSWER:';
export const REFUSAL = 'MUSTER-REFUSAL:';

/** The SQL Server errors that a user can fix. */
const BY_NUMBER: ReadonlyMap<number, string> = new Map([
  [229, SqlErrorCode.denied],
  [262, SqlErrorCode.denied],
  [916, SqlErrorCode.denied],
  [911, SqlErrorCode.databaseMissing],
  [3041, SqlErrorCode.failed],
  [3201, SqlErrorCode.pathUnusable],
  [3203, SqlErrorCode.pathUnusable],
  [3241, SqlErrorCode.pathUnusable],
  [112, SqlErrorCode.noRoom],
  [3257, SqlErrorCode.noRoom],
  [1105, SqlErrorCode.noRoom],
  [3035, SqlErrorCode.chainBroken],
  [3117, SqlErrorCode.chainBroken],
  [3136, SqlErrorCode.chainBroken],
  [4214, SqlErrorCode.chainBroken],
  [4305, SqlErrorCode.chainBroken],
  [4326, SqlErrorCode.chainBroken],
  [4208, SqlErrorCode.simpleRecovery],
  [18456, SqlErrorCode.denied],
  [18452, SqlErrorCode.denied],
]);

/** `Msg 4208, Level 16, State 1, …` in any language: three numbers, each after a word. */
const HEADING = /^\P{Nd}{1,40}?(\d{1,6}), \P{Nd}{1,40}?(\d{1,3}), \P{Nd}{1,40}?(\d{1,3}), /u;

interface SqlMessage {
  number: number;
  text: string;
}

function messagesIn(output: string): SqlMessage[] {
  const lines = output.split(/\r?\n/);
  return lines.flatMap((line, at) => {
    const [, number, level] = HEADING.exec(line.slice(0, 300)) ?? [];
    return number === undefined || Number(level) < 11
      ? []
      : [{ number: Number(number), text: lines[at + 1] ?? '' }];
  });
}

/** The reason of a failed script. */
export function failureIn(output: string): AgentError {
  const at = output.lastIndexOf(REFUSAL);
  if (at !== -1) {
    const [, code = '', text = ''] =
      /^([A-Z_]{1,64}):([^\r\n]{0,500})/.exec(output.slice(at + REFUSAL.length)) ?? [];
    const codes: readonly string[] = Object.values(SqlErrorCode);
    if (codes.includes(code)) return new AgentError(code, printable(text, 500));
  }
  const messages = messagesIn(output);
  const known = messages.find(({ number }) => BY_NUMBER.has(number)) ?? messages[0];
  if (known === undefined) {
    const code = /HResult|SQLSTATE|ODBC|provider/i.test(output)
      ? SqlErrorCode.unreachable
      : SqlErrorCode.failed;
    return new AgentError(code, `SQL Server: ${printable(output.trim(), 500)}`);
  }
  const code = BY_NUMBER.get(known.number) ?? SqlErrorCode.failed;
  return new AgentError(code, `SQL Server ${known.number}: ${printable(known.text, 500)}`);
}

/** The JSON that a script has selected, which may be printed in several pieces. */
export function answerIn<S extends z.ZodType>(output: string, schema: S): z.output<S> {
  const at = output.lastIndexOf(MARK);
  if (at === -1) throw new AgentError(SqlErrorCode.failed, 'SQL Server has printed no answer.');
  const json = output
    .slice(at + MARK.length)
    .replaceAll(/[\r\n]/g, '')
    .trim();
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    throw new AgentError(SqlErrorCode.failed, 'SQL Server has printed an answer that cannot be read.');
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new AgentError(SqlErrorCode.failed, 'SQL Server has answered in another form.');
}

const OUTPUT_MAX = 4_000_000;
const LOGIN_SECONDS = 15;

export type RunSql = <S extends z.ZodType>(
  script: { instance: string; sql: string; answer: S },
  limits: { signal: AbortSignal; timeoutMs: number },
) => Promise<z.output<S>>;

interface SqlcmdOptions {
  /** Looks for the program each time, because it may be installed while the agent runs. */
  find: () => Promise<string | undefined>;
  /** Private folder for the script files while they run. */
  folder: string;
}

/** The default instance is connected to without an instance name. */
const serverOf = (instance: string) => (instance.toUpperCase() === 'MSSQLSERVER' ? '.' : `.\\${instance}`);

/**
 * Runs scripts with sqlcmd, as the account of the agent. `-x`: no variables are substituted. `-X`: it may not start
 * programs. `-y 0`: nothing is cut off at 256 characters.
 */
export const sqlcmd =
  ({ find, folder }: SqlcmdOptions): RunSql =>
  async ({ instance, sql, answer }, { signal, timeoutMs }) => {
    const program = await find();
    if (program === undefined) {
      throw new AgentError(SqlErrorCode.programMissing, 'sqlcmd is not installed on this machine.');
    }
    const own = await openPrivateFolder(path.join(folder, 'sql'));
    const file = path.join(own, `${randomBytes(8).toString('hex')}.sql`);
    await writeFile(file, sql, { flag: 'wx', mode: 0o600 });
    const limit = clock.timeoutSignal(timeoutMs);
    const ends = AbortSignal.any([signal, limit]);
    const args = [
      '-S',
      serverOf(instance),
      '-E',
      '-b',
      '-x',
      '-X',
      '-y',
      '0',
      '-f',
      '65001',
      '-l',
      `${LOGIN_SECONDS}`,
    ];
    let output = '';
    let hasFailed = false;
    try {
      for await (const text of streamText(program, [...args, '-i', file], { signal: ends, timeoutMs })) {
        // Output beyond the limit is discarded: killing sqlcmd would leave a backup half written.
        if (output.length < OUTPUT_MAX) output += text;
      }
    } catch (error) {
      hasFailed = true;
      if (output.trim() === '') output = error instanceof Error ? error.message : String(error);
    } finally {
      await rm(file, { force: true });
    }
    signal.throwIfAborted();
    if (limit.aborted) {
      throw new AgentError(SqlErrorCode.failed, `SQL Server has not answered within ${timeoutMs / 1000} s.`);
    }
    if (hasFailed) throw failureIn(output);
    return answerIn(output, answer);
  };

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
    FROM sys.databases d WHERE d.name <> N'tempdb' ORDER BY d.name FOR JSON PATH) AS databases,
  (SELECT COUNT(*) FROM sys.databases d WHERE d.name <> N'tempdb') AS databaseCount
  FOR JSON PATH, WITHOUT_ARRAY_WRAPPER, INCLUDE_NULL_VALUES`)}`;

const declareDatabase = (database: string) => `DECLARE @db sysname = ${textValue(database)};
IF DB_ID(@db) IS NULL ${refuse('DATABASE_MISSING', 'The instance has no such database.')}\n`;

export const historySql = (database: string, max: number): string =>
  `${SETTINGS}${declareDatabase(database)}${answer(`SELECT
  (SELECT d.recovery_model_desc FROM sys.databases d WHERE d.name = @db) AS recoveryModel,
  (SELECT TOP (${max}) ${SET_COLUMNS}
    FROM msdb.dbo.backupset s WHERE s.database_name = @db AND s.type IN ('D', 'I', 'L')
      AND s.first_lsn IS NOT NULL AND s.last_lsn IS NOT NULL AND s.backup_finish_date IS NOT NULL
    ORDER BY s.backup_set_id DESC FOR JSON PATH, INCLUDE_NULL_VALUES) AS sets
  FOR JSON PATH, WITHOUT_ARRAY_WRAPPER, INCLUDE_NULL_VALUES`)}`;

interface WantedBackup {
  database: string;
  file: string;
  backupType: 'full' | 'differential' | 'log';
  copyOnly: boolean;
}

/** Not in a TRY block, where only the last error of a backup is known, which is useless. */
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

/** The record that SQL Server keeps of an earlier backup file; `null` if it has none. */
export const setOfFileSql = (database: string, file: string): string =>
  `${SETTINGS}${declareDatabase(database)}DECLARE @file nvarchar(1200) = ${textValue(file)};
${answer(`SELECT TOP (1) ${SET_COLUMNS}
  FROM msdb.dbo.backupset s JOIN msdb.dbo.backupmediafamily m ON m.media_set_id = s.media_set_id
  WHERE s.database_name = @db AND m.physical_device_name = @file
  ORDER BY s.backup_set_id DESC FOR JSON PATH, WITHOUT_ARRAY_WRAPPER, INCLUDE_NULL_VALUES`)}`;

/** Refuses a database name that is already in use. */
export const freeNameSql = (database: string): string =>
  `${SETTINGS}DECLARE @db sysname = ${textValue(database)};
IF DB_ID(@db) IS NOT NULL ${refuse('DATABASE_EXISTS', 'The instance has a database with this name.')}
${answer(`SELECT CONVERT(nvarchar(128), SERVERPROPERTY('ProductVersion')) AS version
  FOR JSON PATH, WITHOUT_ARRAY_WRAPPER`)}`;

/** Removes a database in the state RESTORING, and no other. */
export const dropRestoringSql = (database: string): string =>
  `${SETTINGS}DECLARE @db sysname = ${textValue(database)};
DECLARE @drop nvarchar(400) = N'DROP DATABASE ' + QUOTENAME(@db);
IF EXISTS (SELECT 1 FROM sys.databases d WHERE d.name = @db AND d.state = 1) EXEC sp_executesql @drop;
${answer(`SELECT COUNT(*) AS remaining FROM sys.databases d WHERE d.name = @db
  FOR JSON PATH, WITHOUT_ARRAY_WRAPPER`)}`;

interface WantedRestore {
  database: string;
  file: string;
  backupType: 'full' | 'differential' | 'log';
  noRecovery: boolean;
  stopAt?: string | undefined;
  /** Prefix of the files of a new database: letters, digits and `_`. */
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
 * A full backup becomes a new database whose files get new names, so nothing is overwritten. A differential
 * or log backup continues a database in the state RESTORING.
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
