import { rm, readdir } from 'node:fs/promises';
import path from 'node:path';
import {
  DATABASE_INSTANCES_MAX,
  type CommandOutput,
  type CommandPayload,
  type DatabaseDetails,
} from '../../../protocol/index.ts';
import { Reading } from '../../core/plain-text.ts';
import { type BackupParts, STOP_MS } from '../../repository/local-engine.ts';
import type { DurableHandlers, DurableContext, Progress } from '../../work/handler.ts';
import type { RunSql } from '../../sql-server.ts';
import type { LiveHandlers } from '../../work/live-runner.ts';
import type { DatabasePort, OpenFileRestore, OpenRestore } from './engine-port.ts';
import { mariadb } from './mariadb.ts';
import { mssql } from './mssql.ts';
import { postgresql } from './postgresql.ts';
import { clock } from '../../../clock.ts';
import { backupStream, type EngineProgress, dump } from '../../../engine/index.ts';
import { openPrivateFolder } from '../../os/files/private-folder.ts';
import {
  progressOf,
  destinationRoom,
  jobTag,
  processorsFor,
  withRepository,
  type RepositoryWork,
} from '../../repository/repository-work.ts';
import { databaseError } from './program.ts';
import { z } from 'zod';
import { readPrivateJson, writePrivateJson } from '../../os/files/private-file.ts';
import { endLeftover, processMark } from '../../os/process-group.ts';
import { assertRoom } from '../../repository/target-folder.ts';
import { EmptyTarget } from './empty-target.ts';

/** The engines that this operating system supports. */
export const databasePorts = (run: RunSql): readonly DatabasePort[] => {
  if (process.platform === 'linux') return [postgresql, mariadb];
  return process.platform === 'win32' ? [mssql({ run })] : [];
};

interface DatabaseHandlers {
  live: LiveHandlers;
  durable: DurableHandlers;
}

/** Cleans up after an earlier agent, and returns the database commands; none if the system has no engine. */
export async function openDatabases(
  parts: BackupParts,
  ports: readonly DatabasePort[],
): Promise<DatabaseHandlers> {
  if (ports.length === 0) return { live: {}, durable: {} };
  const processes = new KnownProcesses(parts.folder);
  await processes.clear();
  await rm(path.join(parts.folder, 'spool'), { recursive: true, force: true });
  const discoverers = ports.flatMap(({ engine, discover }) =>
    discover === undefined ? [] : [{ engine, discover }],
  );
  return {
    live:
      discoverers.length === 0
        ? {}
        : {
            'backup.databases': async (_payload, { signal }) => {
              const reading = new Reading();
              const found = await Promise.all(
                discoverers.map(({ engine, discover }) => reading.from(engine, () => discover(signal))),
              );
              signal.throwIfAborted();
              const { failed } = reading;
              const instances = found.flatMap((each) => each ?? []);
              return {
                instances: instances.slice(0, DATABASE_INSTANCES_MAX),
                ...(instances.length > DATABASE_INSTANCES_MAX ? { instanceCount: instances.length } : {}),
                ...(failed.length === 0 ? {} : { failed }),
              };
            },
          },
    durable: {
      'backup.database': runDatabaseBackup(parts, ports),
      'backup.database-restore': runDatabaseRestore(parts, ports, processes),
    },
  };
}

/** Makes one snapshot of a database server from the output stream of its backup program. */
const runDatabaseBackup = (parts: BackupParts, ports: readonly DatabasePort[]) => ({
  stopMs: STOP_MS,
  run: (
    payload: CommandPayload<'backup.database'>,
    context: DurableContext<'backup.database'>,
  ): Promise<CommandOutput<'backup.database'>> =>
    withRepository(parts, { payload, context }, async ({ engine, repository, options }) => {
      const { jobId, host, uploadKiBps, cpuPercent } = payload;
      const port = portFor(ports, payload.engine);
      const spool = await openPrivateFolder(path.join(parts.folder, 'spool', jobId));
      try {
        context.progress({ phase: 'preparing' });
        const takenAt = clock.date().toISOString();
        const opened = await port.openBackup({ ...payload, spool, signal: options.signal, warn: parts.warn });
        let details: DatabaseDetails | undefined;
        let failure: unknown;
        try {
          const { status, snapshotId, bytesProcessed, bytesAdded, seconds } = await backupStream(
            engine,
            repository,
            { fileName: opened.fileName, host, tags: [jobTag(jobId)] },
            {
              content: opened.content,
              async confirm() {
                try {
                  details = await opened.finish();
                } catch (error) {
                  failure = error;
                  throw error;
                }
              },
            },
            {
              ...options,
              uploadKiBps,
              processors: processorsFor(cpuPercent),
              onProgress: (now) => context.progress(towards(opened.expectedBytes, now)),
            },
          );
          context.progress({ phase: 'finishing', percent: 100, done: bytesProcessed, total: bytesProcessed });
          return {
            status,
            snapshotId,
            takenAt,
            filesNew: 1,
            filesChanged: 0,
            filesUnmodified: 0,
            bytesProcessed,
            bytesAdded,
            seconds,
            unreadable: { count: 0, paths: [] },
            ...(await destinationRoom(repository)),
            ...(details === undefined ? {} : { details }),
          };
        } catch (error) {
          options.signal.throwIfAborted();
          // The result of the database program decides: the stream alone may end early.
          throw failure ?? error;
        } finally {
          await opened.close();
        }
      } finally {
        await rm(spool, { recursive: true, force: true, maxRetries: 3 });
      }
    }),
});

function portFor(ports: readonly DatabasePort[], engine: DatabasePort['engine']): DatabasePort {
  const port = ports.find((each) => each.engine === engine);
  if (port === undefined) {
    throw databaseError('DATABASE_UNSUPPORTED', `Databases of ${engine} are not backed up on this system.`);
  }
  return port;
}

/** restic does not know the length of a stream; the database knows it approximately. */
function towards(expected: number | null, now: EngineProgress): Progress {
  const { percent: _unknown, total: _none, etaSeconds: _never, ...progress } = progressOf(now);
  if (expected === null || expected <= 0 || now.bytes >= expected) return progress;
  const percent = Math.floor((1000 * now.bytes) / expected) / 10;
  const left = now.rate === null || now.rate <= 0 ? undefined : Math.ceil((expected - now.bytes) / now.rate);
  return { ...progress, total: expected, percent, ...(left === undefined ? {} : { etaSeconds: left }) };
}

const Known = z.object({ pid: z.number().int().positive(), mark: z.string() });

/** How long a server that runs the recovery has to shut down cleanly. */
const LEFTOVER_STOP_MS = 10_000;

/** Processes that outlive the agent: a server that runs the recovery. A later agent ends them. */
class KnownProcesses {
  readonly #folder: string;

  /** @param folder  a private folder of the agent */
  constructor(folder: string) {
    this.#folder = path.join(folder, 'database-processes');
  }

  /** Returns the function that removes the record. */
  async record(pid: number): Promise<() => Promise<void>> {
    const file = path.join(this.#folder, `${pid}.json`);
    await writePrivateJson(file, { pid, mark: await processMark(pid) });
    return () => rm(file, { force: true });
  }

  /** Ends the processes of an earlier agent. */
  async clear(): Promise<void> {
    const names = await readdir(this.#folder).catch(() => []);
    for (const name of names) {
      const file = path.join(this.#folder, name);
      const left = Known.safeParse(await readPrivateJson(file).catch(() => undefined));
      if (!left.success || (await endLeftover(left.data, { signal: 'SIGINT', ms: LEFTOVER_STOP_MS }))) {
        await rm(file, { force: true });
      }
    }
  }
}

type Payload = CommandPayload<'backup.database-restore'>;
type Output = CommandOutput<'backup.database-restore'>;

interface Work extends RepositoryWork {
  payload: Payload;
  opened: OpenRestore;
  context: DurableContext<'backup.database-restore'>;
}

/** A server has some thousand files, whatever its size. */
const FILES = 4000;

/** Restores a database server into an empty folder, where it is recovered. A restore that fails leaves the folder empty. */
const runDatabaseRestore = (
  parts: BackupParts,
  ports: readonly DatabasePort[],
  processes: KnownProcesses,
) => ({
  stopMs: STOP_MS,
  run: (payload: Payload, context: DurableContext<'backup.database-restore'>): Promise<Output> =>
    withRepository(parts, { payload, context }, async (use) => {
      const startedAt = clock.monotonic();
      const { signal } = use.options;
      const port = portFor(ports, payload.engine);
      if (port.openFileRestore !== undefined) {
        const opened = await port.openFileRestore({ ...payload, signal, warn: parts.warn });
        const made = await restoreFiles({ ...use, payload, opened, context });
        return { ...made, seconds: (clock.monotonic() - startedAt) / 1000 };
      }
      if (port.openRestore === undefined) {
        throw databaseError(
          'DATABASE_UNSUPPORTED',
          `Databases of ${payload.engine} are not restored this way.`,
        );
      }
      const spool = await openPrivateFolder(path.join(parts.folder, 'spool', payload.restoreId));
      try {
        const record = (pid: number) => processes.record(pid);
        const opened = await port.openRestore({ ...payload, signal, spool, record, warn: parts.warn });
        const target = await EmptyTarget.open(payload.targetPath, parts.dataDir);
        try {
          const database = await restoreInto(target, { ...use, payload, opened, context });
          return {
            status: 'completed',
            targetPath: target.path,
            filesRestored: target.files,
            bytesRestored: target.bytes,
            filesSkipped: 0,
            seconds: (clock.monotonic() - startedAt) / 1000,
            failed: { count: 0, paths: [] },
            database,
          };
        } finally {
          await target.close();
        }
      } finally {
        await rm(spool, { recursive: true, force: true, maxRetries: 3 });
      }
    }),
});

/** Downloads and applies one part at a time. A failed restore leaves no database. */
async function restoreFiles({
  payload,
  opened,
  context,
  engine,
  repository,
  options,
}: Omit<Work, 'opened'> & { opened: OpenFileRestore }): Promise<Omit<Output, 'seconds'>> {
  const { parts, targetPath } = payload;
  const total = parts.reduce((sum, { sizeBytes }) => sum + (sizeBytes ?? 0), 0);
  const largest = parts.reduce((most, { sizeBytes }) => Math.max(most, sizeBytes ?? 0), 0);
  await assertRoom(opened.folder, { files: 1, bytes: largest });
  let done = 0;
  try {
    for (const [index, part] of parts.entries()) {
      const percent = total === 0 ? 0 : Math.min(99, Math.floor((1000 * done) / total) / 10);
      const message = `Snapshot ${index + 1} of ${parts.length}`;
      context.progress({ phase: 'restoring', done, total: Math.max(total, done), percent, message });
      const place = { snapshotId: part.snapshotId, path: `/${opened.fileNameOf(part)}` };
      done += await opened.apply(
        part,
        reported(dump(engine, repository, place, options), () => {}),
      );
    }
    return {
      status: 'completed',
      targetPath,
      filesRestored: parts.length,
      bytesRestored: done,
      filesSkipped: 0,
      failed: { count: 0, paths: [] },
      database: await opened.finish(),
    };
  } catch (error) {
    await opened.undo();
    options.signal.throwIfAborted();
    throw error;
  }
}

async function restoreInto(target: EmptyTarget, work: Work): Promise<Output['database']> {
  const { payload, opened, context } = work;
  const total = payload.parts.reduce((sum, { sizeBytes }) => sum + (sizeBytes ?? 0), 0);
  await assertRoom(target.path, { files: FILES, bytes: total });
  try {
    if (opened.isWrittenByUser !== true) await target.take();
    for (const [index, part] of payload.parts.entries()) {
      const file = `/${opened.fileNameOf(part)}`;
      const content = dump(
        work.engine,
        work.repository,
        { snapshotId: part.snapshotId, path: file },
        work.options,
      );
      const report = () => {
        const done = target.bytes;
        const percent = total === 0 ? 0 : Math.min(99, Math.floor((1000 * done) / total) / 10);
        const message = `Snapshot ${index + 1} of ${payload.parts.length}`;
        context.progress({ phase: 'restoring', done, total: Math.max(total, done), percent, message });
      };
      report();
      await opened.write(part, reported(content, report), target);
    }
    await opened.beforeHandOver?.(target);
    if (opened.isWrittenByUser !== true) await target.handOver();
    context.progress({ phase: 'recovering', done: target.bytes, total: Math.max(total, target.bytes) });
    return await opened.recover(target);
  } catch (error) {
    await target.empty();
    work.options.signal.throwIfAborted();
    throw error;
  }
}

const REPORT_BYTES = 8 * 1024 * 1024;

async function* reported(
  content: AsyncIterable<unknown>,
  report: () => void,
): AsyncGenerator<Uint8Array, void> {
  let since = 0;
  for await (const bytes of content) {
    if (!(bytes instanceof Uint8Array)) continue;
    yield bytes;
    since += bytes.byteLength;
    if (since < REPORT_BYTES) continue;
    since = 0;
    report();
  }
}
