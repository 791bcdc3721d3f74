import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { clock } from '../../clock.ts';
import {
  type CommandOutput,
  DATABASE_INSTANCES_MAX,
  DATABASES_MAX,
  type DatabaseInstance,
  SQL_HISTORY_MAX,
  SqlBackupSet,
  SqlInstance,
} from '../../protocol/index.ts';
import { describeError } from '../core/agent-error.ts';
import { firstCharacters } from '../core/plain-text.ts';
import { readOutput } from '../os/child-process.ts';
import type { DurableHandlers } from '../work/handler.ts';
import type { LiveHandlers } from '../work/live-runner.ts';
import { backupSql, historySql, instanceSql, restoreSql, type RunSql } from '../sql-server.ts';

export interface SqlServerParts {
  run: RunSql;
  /** The program that reads the registry of Windows. */
  registry: string;
}

const INSTANCES = String.raw`HKLM\SOFTWARE\Microsoft\Microsoft SQL Server\Instance Names\SQL`;
const LOOK_MS = 25_000;

const Bytes = z.number().int().nonnegative().max(Number.MAX_SAFE_INTEGER).nullish();
const Instance = z.object({
  version: z.string().nullish(),
  edition: z.string().nullish(),
  dataFolder: z.string().nullish(),
  databases: z.array(z.object({ name: z.string(), sizeBytes: Bytes })).nullish(),
  databaseCount: z.number().int().nullish(),
});
const History = z.object({
  recoveryModel: z.string().nullish(),
  sets: z.array(SqlBackupSet).nullish(),
});
const After = z.object({ state: z.string().max(60) }).nullable();

/** Live queries about SQL Server. Only for Windows. */
export const sqlServerQueries = ({ run, registry }: SqlServerParts): LiveHandlers => ({
  'backup.databases': async (_payload, { signal, timeUp }) => {
    const ends = AbortSignal.any([signal, timeUp]);
    const names = await instanceNames(registry, ends);
    const instances = await Promise.all(
      names.slice(0, DATABASE_INSTANCES_MAX).map((name) => describe(run, name, ends)),
    );
    return { instances, ...(names.length > DATABASE_INSTANCES_MAX ? { instanceCount: names.length } : {}) };
  },
  'backup.mssql-history': async ({ instance, database }, { signal, timeUp }) => {
    const script = { instance, sql: historySql(database, SQL_HISTORY_MAX), answer: History };
    const limits = { signal: AbortSignal.any([signal, timeUp]), timeoutMs: LOOK_MS };
    const { sets, recoveryModel } = await run(script, limits);
    return { sets: sets ?? [], recoveryModel: recoveryModel ?? '' };
  },
});

/** Without SQL Server, this registry key does not exist and the program fails. */
async function instanceNames(registry: string, signal: AbortSignal): Promise<string[]> {
  const output = await readOutput(registry, ['query', INSTANCES], { signal, maxLength: 1_000_000 }).catch(
    () => '',
  );
  return output
    .split(/\r?\n/)
    .flatMap((line) => /^\s+(\S{1,32})\s+REG_SZ\s/.exec(line)?.[1] ?? [])
    .filter((name) => SqlInstance.safeParse(name).success);
}

/** An instance that does not answer is listed with its error. */
async function describe(run: RunSql, instance: string, signal: AbortSignal): Promise<DatabaseInstance> {
  const known = { engine: 'mssql', instance, port: null } as const;
  try {
    const script = { instance, sql: instanceSql(DATABASES_MAX), answer: Instance };
    const { version, edition, dataFolder, databases, databaseCount } = await run(script, {
      signal,
      timeoutMs: LOOK_MS,
    });
    return {
      ...known,
      version: firstCharacters([version ?? '', edition ?? ''].join(' ').trim(), 255),
      dataFolder: dataFolder == null ? null : firstCharacters(dataFolder, 4096),
      databases: (databases ?? []).slice(0, DATABASES_MAX).map(({ name, sizeBytes = null }) => ({
        name: firstCharacters(name, 255),
        sizeBytes,
      })),
      ...(databaseCount != null && databaseCount > DATABASES_MAX ? { databaseCount } : {}),
      problems: [],
    };
  } catch (error) {
    signal.throwIfAborted();
    const { code, message } = describeError(error);
    const problem = { code: firstCharacters(code, 64), message: firstCharacters(message, 500) };
    return { ...known, version: '', dataFolder: null, databases: [], problems: [problem] };
  }
}

/** Recognizes the backup files that Muster has written. */
const OURS = 'muster-';

export const sqlServerHandlers = ({ run }: SqlServerParts): DurableHandlers => ({
  'backup.mssql-backup': async (
    payload,
    { signal, progress },
  ): Promise<CommandOutput<'backup.mssql-backup'>> => {
    const { instance, database, backupType, copyOnly, outputPath, timeoutSeconds } = payload;
    const startedAt = clock.monotonic();
    const file = fileIn(outputPath, backupType);
    progress({ phase: 'backing up', path: database });
    const set = await run(
      { instance, sql: backupSql({ database, file, backupType, copyOnly }), answer: SqlBackupSet },
      { signal, timeoutMs: timeoutSeconds * 1000 },
    );
    return { file, set, seconds: (clock.monotonic() - startedAt) / 1000 };
  },
  'backup.mssql-restore': async (
    payload,
    { signal, progress },
  ): Promise<CommandOutput<'backup.mssql-restore'>> => {
    const { instance, backupFile, targetDatabase, timeoutSeconds, restoreId, ...how } = payload;
    const startedAt = clock.monotonic();
    const filePrefix = `muster_${restoreId.replaceAll('-', '')}`;
    progress({ phase: 'restoring', path: targetDatabase });
    const after = await run(
      {
        instance,
        sql: restoreSql({ ...how, database: targetDatabase, file: backupFile, filePrefix }),
        answer: After,
      },
      { signal, timeoutMs: timeoutSeconds * 1000 },
    );
    const seconds = (clock.monotonic() - startedAt) / 1000;
    return { database: targetDatabase, state: after?.state ?? '', seconds };
  },
});

/** A file name that is not in use, so that no backup is overwritten. */
function fileIn(folder: string, backupType: 'full' | 'differential' | 'log'): string {
  const at = clock
    .date()
    .toISOString()
    .replaceAll(/[-:]|\.\d+/g, '');
  const ending = backupType === 'log' ? 'trn' : 'bak';
  const name = `${OURS}${at}-${backupType}-${randomBytes(4).toString('hex')}.${ending}`;
  return `${folder.replace(/[\\/]+$/, '')}\\${name}`;
}
