import { rm } from 'node:fs/promises';
import path from 'node:path';
import { clock } from '../../../clock.ts';
import { dump } from '../../../engine/index.ts';
import type { CommandOutput, CommandPayload } from '../../../protocol/index.ts';
import { openPrivateFolder } from '../../os/files/private-folder.ts';
import type { BackupParts } from '../../repository/backup-parts.ts';
import { STOP_MS } from '../../repository/local-engine.ts';
import { type RepositoryWork, withRepository } from '../../repository/repository-work.ts';
import { assertRoom } from '../../repository/room.ts';
import type { DurableContext } from '../../work/durable-handler.ts';
import { databaseError } from './database-error.ts';
import { EmptyTarget } from './empty-target.ts';
import type { DatabasePort, OpenFileRestore, OpenRestore } from './engine-port.ts';
import type { KnownProcesses } from './known-processes.ts';
import { portFor } from './run-database-backup.ts';

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
export const runDatabaseRestore = (
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

/** Part after part as a file, of which one at a time lies there. A restore that fails leaves no database. */
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
