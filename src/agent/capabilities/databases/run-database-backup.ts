import { rm } from 'node:fs/promises';
import path from 'node:path';
import { clock } from '../../../clock.ts';
import { backupStream, type EngineProgress } from '../../../engine/index.ts';
import type { CommandOutput, CommandPayload, DatabaseDetails } from '../../../protocol/index.ts';
import { openPrivateFolder } from '../../os/files/private-folder.ts';
import type { BackupParts } from '../../repository/backup-parts.ts';
import { STOP_MS } from '../../repository/local-engine.ts';
import { progressOf } from '../../repository/reports.ts';
import { withRepository } from '../../repository/repository-work.ts';
import { destinationRoom, jobTag, processorsFor } from '../../repository/snapshot-facts.ts';
import type { DurableContext, Progress } from '../../work/durable-handler.ts';
import { databaseError } from './database-error.ts';
import type { DatabasePort } from './engine-port.ts';

/** Makes one snapshot of a database server, from a stream of its own program. */
export const runDatabaseBackup = (parts: BackupParts, ports: readonly DatabasePort[]) => ({
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
          // What the database has said is more than that its stream has ended.
          throw failure ?? error;
        } finally {
          await opened.close();
        }
      } finally {
        await rm(spool, { recursive: true, force: true, maxRetries: 3 });
      }
    }),
});

export function portFor(ports: readonly DatabasePort[], engine: DatabasePort['engine']): DatabasePort {
  const port = ports.find((each) => each.engine === engine);
  if (port === undefined) {
    throw databaseError('DATABASE_UNSUPPORTED', `Databases of ${engine} are not backed up on this system.`);
  }
  return port;
}

/** restic does not know how long a stream is; the database knows it roughly. */
function towards(expected: number | null, now: EngineProgress): Progress {
  const { percent: _unknown, total: _none, etaSeconds: _never, ...progress } = progressOf(now);
  if (expected === null || expected <= 0 || now.bytes >= expected) return progress;
  const percent = Math.floor((1000 * now.bytes) / expected) / 10;
  const left = now.rate === null || now.rate <= 0 ? undefined : Math.ceil((expected - now.bytes) / now.rate);
  return { ...progress, total: expected, percent, ...(left === undefined ? {} : { etaSeconds: left }) };
}
