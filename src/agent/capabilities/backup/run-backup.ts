import path from 'node:path';
import { clock } from '../../../clock.ts';
import { backup, literalPattern, type Repository } from '../../../engine/index.ts';
import {
  type BackupResult,
  type CommandOutput,
  type CommandPayload,
  NAMED_PATHS_MAX,
  PATH_TEXT_MAX,
} from '../../../protocol/index.ts';
import { AgentError } from '../../core/agent-error.ts';
import { firstCharacters } from '../../core/plain-text.ts';
import { osType } from '../../os/machine/os-type.ts';
import type { DurableContext } from '../../work/durable-handler.ts';
import type { BackupParts } from '../../repository/backup-parts.ts';
import { STOP_MS } from '../../repository/local-engine.ts';
import { progressOf } from '../../repository/reports.ts';
import { withRepository } from '../../repository/repository-work.ts';
import { destinationRoom, jobTag, processorsFor, resultOf } from '../../repository/snapshot-facts.ts';
import { withShadowCopies } from './shadow-copies.ts';
import { presentSources, sourcesWithoutFiles } from './sources.ts';
import type { ChosenSources, LeftOut } from './virtual-file-systems.ts';

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
      const sources = await presentSources(paths);
      if (sources.paths.length === 0) throw allRefused(sources.refused);
      const input = {
        paths: sources.paths,
        excludes: [
          ...sources.firstPatterns,
          ...excludes,
          ...sources.patterns,
          ...excludedAlways(parts.dataDir, repository),
        ],
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
      const result = withSources(resultOf(made, takenAt), sources);
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
        ...result,
        emptySources: await sourcesWithoutFiles(sources.paths),
        ...(shadowCopies === undefined ? {} : { shadowCopies }),
        ...(await destinationRoom(repository)),
      };
    }),
});

const isOf = (type: string) => `It lies in a virtual file system (${type}), which holds no files.`;

const allRefused = ([first, ...others]: readonly LeftOut[]) =>
  new AgentError(
    'SOURCE_UNREADABLE',
    others.length === 0
      ? `${first?.path} is not backed up. ${isOf(first?.type ?? '')}`
      : 'All sources lie in virtual file systems, which hold no files.',
  );

/** The result says what was not backed up on purpose. A source of which that is all makes the backup partial. */
function withSources(result: BackupResult, { leftOut, refused }: ChosenSources): BackupResult {
  const { status, unreadable } = result;
  const named = refused.map(({ path: source, type }) => ({ path: source, message: isOf(type) }));
  return {
    ...result,
    status: refused.length > 0 ? 'partial' : status,
    unreadable: {
      ...unreadable,
      count: unreadable.count + named.length,
      paths: [...named, ...unreadable.paths].slice(0, NAMED_PATHS_MAX),
    },
    leftOut: {
      count: leftOut.length,
      paths: leftOut
        .slice(0, NAMED_PATHS_MAX)
        .map(({ path: folder, type }) => ({ path: firstCharacters(folder, PATH_TEXT_MAX), message: type })),
    },
  };
}

/** The files of the agent, and a repository that lies within its own source. */
function excludedAlways(dataDir: string, { destination }: Repository): string[] {
  const excluded = [dataDir, ...(destination.type === 'local' ? [destination.path] : [])];
  return excluded.map((each) => literalPattern(each.split(path.sep).join('/')));
}
