import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { clock } from '../../../../clock.ts';
import { type DatabaseDetails, SqlBackupSet, SqlErrorCode, SqlInstance } from '../../../../protocol/index.ts';
import { AgentError } from '../../../core/agent-error.ts';
import { backupSql, setOfFileSql } from '../../../sql-server/sql-text.ts';
import { databaseError } from '../database-error.ts';
import type { BackupOrder, DatabasePort, OpenBackup } from '../engine-port.ts';
import { MSSQL_FILE, type MssqlParts } from './mssql-parts.ts';
import { openFileRestore } from './restore.ts';
import { newSpoolFile, removeSpooled, type SpooledFile, spooledFiles, type SpoolPlace } from './spool.ts';

/** SQL Server on Windows (docs/decisions/windows-backups.md). It writes files, which become streams here. */

interface Source {
  instance: string;
  database: string;
  place: SpoolPlace;
}

export const mssql = (parts: MssqlParts): DatabasePort => ({
  engine: 'mssql',
  openBackup: (order) => openBackup(parts, order),
  openFileRestore: (order) => openFileRestore(parts, order),
});

async function openBackup(parts: MssqlParts, order: BackupOrder): Promise<OpenBackup> {
  const source = sourceOf(parts, order);
  const limits = { signal: order.signal, timeoutMs: order.timeoutSeconds * 1000 };
  const waiting = await tidy(parts, source, order, limits);
  const spooled = waiting ?? (await backUp(parts, source, order, limits));
  const { file } = spooled;
  const before = await stat(file.local).catch(() => {
    throw new AgentError(
      SqlErrorCode.pathUnusable,
      `The agent does not find the backup in ${source.place.folder}. The folder has to be on this machine.`,
    );
  });
  return {
    fileName: MSSQL_FILE,
    content: createReadStream(file.local),
    expectedBytes: before.size,
    async finish(): Promise<DatabaseDetails> {
      const after = await stat(file.local);
      if (after.size !== before.size || after.mtimeMs !== before.mtimeMs) {
        throw databaseError('BACKUP_DAMAGED', 'The file of the backup was changed while it was read.');
      }
      return detailsOf(source, order, spooled);
    },
    async close() {
      // A log is not in SQL Server any more. It stays until the server is known to have it.
      if (file.backupType !== 'log') await removeSpooled(file);
    },
  };
}

function sourceOf({ toLocal = (folder) => folder }: MssqlParts, order: BackupOrder): Source {
  const { databases = [], spoolPath } = order;
  const instance = SqlInstance.parse(order.instance ?? 'MSSQLSERVER');
  const [database, another] = databases;
  if (database === undefined || another !== undefined || spoolPath === undefined) {
    throw databaseError('DATABASE_UNSUPPORTED', 'One database and a folder for its backup have to be named.');
  }
  const mark = createHash('sha256').update(`${order.chainId} ${instance} ${database}`).digest('hex');
  return {
    instance,
    database,
    place: { folder: spoolPath, local: toLocal(spoolPath), mark: mark.slice(0, 12) },
  };
}

interface Spooled {
  file: SpooledFile;
  set: SqlBackupSet;
}
type Limits = { signal: AbortSignal; timeoutMs: number };

/** Removes what earlier backups have left. Returns a log among it that the repository does not have and that comes next. */
async function tidy(
  { run }: MssqlParts,
  { instance, database, place }: Source,
  { backupType, previous }: BackupOrder,
  limits: Limits,
): Promise<Spooled | undefined> {
  const reached = previous?.to == null ? undefined : BigInt(previous.to);
  let next: Spooled | undefined;
  for (const file of await spooledFiles(place)) {
    if (file.backupType !== 'log' || backupType !== 'log' || reached === undefined) {
      // With a full backup a new chain begins, and a differential one does not need the logs before it.
      if (file.backupType !== 'log' || backupType === 'full') await removeSpooled(file);
      continue;
    }
    const script = { instance, sql: setOfFileSql(database, file.file), answer: SqlBackupSet.nullable() };
    const set = await run(script, limits);
    if (set === null || BigInt(set.lastLsn) <= reached) await removeSpooled(file);
    else if (next === undefined && BigInt(set.firstLsn) <= reached) next = { file, set };
  }
  return next;
}

async function backUp(
  { run }: MssqlParts,
  { instance, database, place }: Source,
  { backupType }: BackupOrder,
  limits: Limits,
): Promise<Spooled> {
  const file = newSpoolFile(place, backupType);
  const sql = backupSql({ database, file: file.file, backupType, copyOnly: false });
  try {
    return { file, set: await run({ instance, sql, answer: SqlBackupSet }, limits) };
  } catch (error) {
    await removeSpooled(file);
    throw error;
  }
}

/** Throws CHAIN_BROKEN where another program has made a backup in between: the next one is a full one then. */
function detailsOf(
  { instance, database }: Source,
  { full, previous, backupType }: BackupOrder,
  { file, set }: Spooled,
): DatabaseDetails {
  if (set.isDamaged || set.backupType !== backupType) {
    throw databaseError('BACKUP_DAMAGED', 'SQL Server says that the backup is damaged.');
  }
  if (backupType === 'differential' && set.differentialBase?.toLowerCase() !== full?.setId?.toLowerCase()) {
    throw databaseError(
      'CHAIN_BROKEN',
      'The differential backup is based on a full one of another program. The next backup is a full one.',
    );
  }
  if (backupType === 'log') {
    const reached = previous?.to == null ? undefined : BigInt(previous.to);
    if (reached === undefined || BigInt(set.firstLsn) > reached || set.fork !== (previous?.branch ?? null)) {
      throw databaseError(
        'CHAIN_BROKEN',
        'The log does not continue the last backup: another program has taken what lies between. The next backup is a full one.',
      );
    }
  }
  return {
    kind: 'database',
    engine: 'mssql',
    instance,
    databases: [database],
    backupType,
    version: '',
    from: set.firstLsn,
    to: set.lastLsn,
    branch: set.fork,
    basedOn: backupType === 'differential' ? (full?.to ?? null) : null,
    recoverableFrom: backupType === 'log' ? null : clock.date().toISOString(),
    recoverableTo: file.begunAt.toISOString(),
    setId: set.uuid,
  };
}
