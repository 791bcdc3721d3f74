import path from 'node:path';
import { clock } from '../../../clock.ts';
import { backup, literalPattern, type Repository } from '../../../engine/index.ts';
import type { CommandOutput, CommandPayload } from '../../../protocol/index.ts';
import { osType } from '../../os/machine/os-type.ts';
import type { DurableContext } from '../../work/durable-handler.ts';
import type { BackupParts } from '../../repository/backup-parts.ts';
import { STOP_MS } from '../../repository/local-engine.ts';
import { progressOf } from '../../repository/reports.ts';
import { withRepository } from '../../repository/repository-work.ts';
import { destinationRoom, jobTag, processorsFor, resultOf } from '../../repository/snapshot-facts.ts';
import { withShadowCopies } from './shadow-copies.ts';

const isWindows = osType() === 'windows';

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
      const takenAt = clock.date().toISOString();
      const input = {
        paths,
        excludes: [...excludes, ...excludedAlways(parts.dataDir, repository)],
        oneFileSystem,
        host,
        tags: [jobTag(jobId)],
      };
      const { made, shadowCopies } = await withShadowCopies(parts.hasShadowCopies ?? isWindows, (wanted) =>
        backup(
          engine,
          repository,
          { ...input, shadowCopies: wanted },
          {
            ...options,
            // The server knows what arrives in its store, and with whose credential.
            isSnapshotKnown: repository.destination.type === 'rest',
            uploadKiBps,
            processors: processorsFor(cpuPercent),
            onProgress: (now) => progress(progressOf(now)),
          },
        ),
      );
      const { bytesProcessed, filesProcessed } = made;
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
        ...resultOf(made, takenAt),
        ...(shadowCopies === undefined ? {} : { shadowCopies }),
        ...(await destinationRoom(repository)),
      };
    }),
});

/** The files of the agent, and a repository that lies within its own source. */
function excludedAlways(dataDir: string, { destination }: Repository): string[] {
  const excluded = [dataDir, ...(destination.type === 'local' ? [destination.path] : [])];
  return excluded.map((each) => literalPattern(each.split(path.sep).join('/')));
}
