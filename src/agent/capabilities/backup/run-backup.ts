import { statfs } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { backup, literalPattern, type Repository } from '../../../engine/index.ts';
import type { CommandOutput, CommandPayload } from '../../../protocol/index.ts';
import type { DurableContext } from '../../work/durable-handler.ts';
import type { BackupParts } from './backup-parts.ts';
import { STOP_MS } from './local-engine.ts';
import { namedPaths, progressOf } from './reports.ts';
import { withRepository } from './repository-work.ts';

/** Makes one snapshot of this machine. */
export const runBackup = (parts: BackupParts) => ({
  stopMs: STOP_MS,
  run: (
    payload: CommandPayload<'backup.run'>,
    context: DurableContext<'backup.run'>,
  ): Promise<CommandOutput<'backup.run'>> =>
    withRepository(parts, { payload, context }, async ({ engine, repository, options }) => {
      const { jobId, host, paths, excludes, oneFileSystem, uploadKiBps, cpuPercent } = payload;
      const { progress } = context;
      const takenAt = new Date().toISOString();
      const { status, snapshotId, unreadable, ...result } = await backup(
        engine,
        repository,
        {
          paths,
          excludes: [...excludes, ...excludedAlways(parts.dataDir, repository)],
          oneFileSystem,
          host,
          tags: [jobTag(jobId)],
        },
        {
          ...options,
          // The server knows what arrives in its store, and with whose credential.
          isSnapshotKnown: repository.destination.type === 'rest',
          uploadKiBps,
          processors: processorsFor(cpuPercent),
          onProgress: (now) => progress(progressOf(now)),
        },
      );
      const { bytesProcessed, filesProcessed } = result;
      // The last report of restic is up to a second old.
      progress({
        phase: 'finishing',
        percent: 100,
        done: bytesProcessed,
        total: bytesProcessed,
        filesDone: filesProcessed,
        filesTotal: filesProcessed,
      });
      return {
        status,
        snapshotId,
        takenAt,
        filesNew: result.filesNew,
        filesChanged: result.filesChanged,
        filesUnmodified: result.filesUnmodified,
        bytesProcessed: result.bytesProcessed,
        bytesAdded: result.bytesAdded,
        seconds: result.seconds,
        unreadable: namedPaths(unreadable),
        ...(await destinationRoom(repository)),
      };
    }),
});

/** By this tag, the server finds the snapshot of a job whose result it has never received. */
const jobTag = (jobId: string) => `muster-job-${jobId}`;

/** The files of the agent, and a repository that lies within its own source. */
function excludedAlways(dataDir: string, { destination }: Repository): string[] {
  const excluded = [dataDir, ...(destination.type === 'local' ? [destination.path] : [])];
  return excluded.map((each) => literalPattern(each.split(path.sep).join('/')));
}

/** Of a disk or a share: nobody else can find out in time that it is full soon. */
async function destinationRoom({
  destination,
}: Repository): Promise<Pick<CommandOutput<'backup.run'>, 'destinationRoom'>> {
  if (destination.type !== 'local') return {};
  try {
    const { bavail, blocks, bsize } = await statfs(destination.path);
    return { destinationRoom: { freeBytes: bavail * bsize, totalBytes: blocks * bsize } };
  } catch {
    // The backup was made, whatever the disk says of itself.
    return {};
  }
}

function processorsFor(percent: number | undefined): number | undefined {
  return percent === undefined ? undefined : Math.max(1, Math.floor((os.cpus().length * percent) / 100));
}
