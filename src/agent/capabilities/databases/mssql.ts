import { createHash, randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat, readdir, rm, open } from 'node:fs/promises';
import path from 'node:path';
import { clock } from '../../../clock.ts';
import {
  type DatabaseDetails,
  SqlBackupSet,
  SqlErrorCode,
  SqlInstance,
  type DatabaseBackupType,
} from '../../../protocol/index.ts';
import { AgentError } from '../../core/agent-error.ts';
import {
  backupSql,
  setOfFileSql,
  dropRestoringSql,
  freeNameSql,
  restoreSql,
  type RunSql,
} from '../../sql-server.ts';
import type {
  BackupOrder,
  DatabasePort,
  OpenBackup,
  ChainPart,
  FileRestoreOrder,
  OpenFileRestore,
} from './engine-port.ts';
import { databaseError } from './program.ts';
import { z } from 'zod';

/**
 * SQL Server on Windows (docs/decisions/virtual-machines.md). It writes files, which are streamed into snapshots here.
 */

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
      // SQL Server has truncated this log, so the file stays until the server confirms that it has the backup.
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

/** Removes files of earlier backups. Returns a log among them that the repository lacks and that continues the chain. */
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
      // A full backup starts a new chain, and a differential backup does not need the logs before it.
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

/** Throws CHAIN_BROKEN if another program has made a backup in between. The next backup is then a full one. */
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
        'The log does not continue the last backup: another program has made a backup in between. The next backup is a full one.',
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

/** Backup files in a folder that SQL Server writes to. They wait there until they are in the repository. */

const NAME = /^muster-spool-([0-9a-f]{12})-(\d{13})-(full|differential|log)-[0-9a-f]{8}\.bak$/;

interface SpooledFile {
  name: string;
  /** The folder as SQL Server names it. */
  file: string;
  /** The folder as this process reaches it. */
  local: string;
  backupType: DatabaseBackupType;
  /** A time before the backup began: what was committed by then is in it. */
  begunAt: Date;
}

interface SpoolPlace {
  /** The path as SQL Server names it: a path of Windows. */
  folder: string;
  /** The folder as this process reaches it. */
  local: string;
  /** Files of this database only; those of other databases are left alone. */
  mark: string;
}

const fileIn = ({ folder, local }: SpoolPlace, name: string) => ({
  name,
  file: `${folder.replace(/[\\/]+$/, '')}\\${name}`,
  local: path.join(local, name),
});

function newSpoolFile(place: SpoolPlace, backupType: DatabaseBackupType): SpooledFile {
  const begunAt = clock.date();
  const words = [place.mark, begunAt.getTime(), backupType, randomBytes(4).toString('hex')];
  return { ...fileIn(place, `muster-spool-${words.join('-')}.bak`), backupType, begunAt };
}

/** The files of earlier backups of this database, oldest first. */
async function spooledFiles(place: SpoolPlace): Promise<SpooledFile[]> {
  const names = await readdir(place.local).catch(() => []);
  return names
    .flatMap((name): SpooledFile[] => {
      const [, mark, at, type] = NAME.exec(name) ?? [];
      if (mark !== place.mark || (type !== 'full' && type !== 'differential' && type !== 'log')) return [];
      return [{ ...fileIn(place, name), backupType: type, begunAt: new Date(Number(at)) }];
    })
    .sort((one, other) => one.begunAt.getTime() - other.begunAt.getTime());
}

const removeSpooled = (file: SpooledFile): Promise<void> => rm(file.local, { force: true });

interface MssqlParts {
  run: RunSql;
  /** Maps a folder of the machine to a path of this process. Tests run on another system. */
  toLocal?: (folder: string) => string;
}

/** The only file of a snapshot. */
const MSSQL_FILE = 'mssql.bak';

/**
 * Restores a chain of backups as a new database: each part is downloaded into a folder, restored from there and
 * removed.
 */

const Answer = z.unknown();

async function openFileRestore(
  { run, toLocal = (folder) => folder }: MssqlParts,
  order: FileRestoreOrder,
): Promise<OpenFileRestore> {
  const { restoreId, targetPath, targetDatabase, parts, pointInTime, noRecovery } = order;
  if (targetDatabase === undefined) {
    throw databaseError('DATABASE_UNSUPPORTED', 'The new database has to have a name.');
  }
  const instance = SqlInstance.parse(order.instance);
  const limits = { signal: order.signal, timeoutMs: order.timeoutSeconds * 1000 };
  const folder = toLocal(targetPath);
  const found = await stat(folder).catch(() => undefined);
  if (found?.isDirectory() !== true) {
    throw new AgentError(SqlErrorCode.pathUnusable, `There is no folder ${targetPath} on this device.`);
  }
  await run({ instance, sql: freeNameSql(targetDatabase), answer: Answer }, limits);
  const compact = restoreId.replaceAll('-', '');
  let applied = 0;
  let mayBeOurs = false;

  return {
    folder,
    fileNameOf: () => MSSQL_FILE,
    async apply(part: ChainPart, content: AsyncIterable<Uint8Array>) {
      const name = `muster-restore-${compact}-${applied}.bak`;
      const local = path.join(folder, name);
      const isLast = applied === parts.length - 1;
      try {
        const bytes = await write(local, content);
        const sql = restoreSql({
          database: targetDatabase,
          file: `${targetPath.replace(/[\\/]+$/, '')}\\${name}`,
          backupType: part.backupType,
          noRecovery: !isLast || noRecovery,
          stopAt: isLast && pointInTime !== undefined ? localTime(new Date(pointInTime)) : undefined,
          filePrefix: `muster_${compact}`,
        });
        mayBeOurs = true;
        await run({ instance, sql, answer: Answer }, limits).catch((error: unknown) => {
          const isTaken = error instanceof AgentError && error.code === SqlErrorCode.databaseExists;
          if (isTaken && applied === 0) mayBeOurs = false;
          throw error;
        });
        applied += 1;
        return bytes;
      } finally {
        await rm(local, { force: true });
      }
    },
    finish: async () => ({
      isRecovered: !noRecovery,
      recoveredTo: pointInTime ?? null,
      position: parts.at(-1)?.to ?? null,
    }),
    async undo() {
      // Before the restore of the full backup begins, a database with this name is not ours.
      if (!mayBeOurs) return;
      const script = { instance, sql: dropRestoringSql(targetDatabase), answer: Answer };
      await run(script, { ...limits, signal: clock.timeoutSignal(60_000) }).catch((error: unknown) => {
        order.warn(`The partly restored database could not be removed: ${String(error)}`);
      });
    },
  };
}

/** The service of SQL Server can read the file by the rights of its folder. */
async function write(file: string, content: AsyncIterable<Uint8Array>): Promise<number> {
  const handle = await open(file, 'wx');
  let at = 0;
  try {
    for await (const bytes of content) {
      for (let done = 0; done < bytes.byteLength; ) {
        done += (await handle.write(bytes, done, bytes.byteLength - done)).bytesWritten;
      }
      at += bytes.byteLength;
    }
    await handle.sync();
  } finally {
    await handle.close();
  }
  return at;
}

/** SQL Server uses the clock and the time zone of this machine. */
export function localTime(at: Date): string {
  const two = (value: number, digits = 2) => String(value).padStart(digits, '0');
  const day = [two(at.getFullYear(), 4), two(at.getMonth() + 1), two(at.getDate())].join('-');
  const time = [two(at.getHours()), two(at.getMinutes()), two(at.getSeconds())].join(':');
  return `${day}T${time}.${two(at.getMilliseconds(), 3)}`;
}
