import { lstat, opendir, realpath } from 'node:fs/promises';
import path from 'node:path';
import { clock } from '../../../clock.ts';
import { backup, literalPattern, type Repository, EngineError } from '../../../engine/index.ts';
import {
  type BackupResult,
  type CommandOutput,
  type CommandPayload,
  NAMED_PATHS_MAX,
  PATH_TEXT_MAX,
} from '../../../protocol/index.ts';
import { AgentError } from '../../core/agent-error.ts';
import { firstCharacters } from '../../core/plain-text.ts';
import { readMounts } from '../../os/files/mounts.ts';
import { nameBytes, nameText } from '../../os/files/open-folder.ts';
import { osType } from '../../os/machine.ts';
import { type BackupParts, STOP_MS } from '../../repository/local-engine.ts';
import {
  withRepository,
  progressOf,
  destinationRoom,
  jobTag,
  processorsFor,
  resultOf,
} from '../../repository/repository-work.ts';
import type { DurableContext } from '../../work/handler.ts';
import { type ChosenSources, type LeftOut, chooseSources } from './virtual-file-systems.ts';

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
            // The server counts what arrives in its store, and knows the credential.
            isSnapshotKnown: repository.destination.type === 'rest',
            uploadKiBps,
            processors: processorsFor(cpuPercent),
            onProgress: (now) => progress(progressOf(now)),
          },
        ),
      );
      const { bytesProcessed, filesProcessed } = made;
      const result = withSources(resultOf(made, takenAt), sources);
      // The last progress report of restic is up to a second old.
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

/** The result lists what was skipped on purpose. A source that was skipped as a whole makes the backup partial. */
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

/** The agent's own files, and a repository inside its own source. */
function excludedAlways(dataDir: string, { destination }: Repository): string[] {
  const excluded = [dataDir, ...(destination.type === 'local' ? [destination.path] : [])];
  return excluded.map((each) => literalPattern(each.split(path.sep).join('/')));
}

type ShadowCopies = NonNullable<BackupResult['shadowCopies']>;

interface FileBackup {
  volumesInUse: readonly { path: string; reason: string }[];
}

const PROBLEMS_MAX = 50;
const VOLUME_MAX = 1000;
const MESSAGE_MAX = 500;

/**
 * Backs up from shadow copies if the machine has them. A volume without one is read as it is, and so is
 * everything if Windows refuses all of them: a backup without the open files is better than none.
 */
export async function withShadowCopies<T extends FileBackup>(
  hasShadowCopies: boolean,
  backup: (shadowCopies: boolean) => Promise<T>,
): Promise<{ made: T; shadowCopies: ShadowCopies | undefined }> {
  if (!hasShadowCopies) return { made: await backup(false), shadowCopies: undefined };
  try {
    const made = await backup(true);
    const problems = made.volumesInUse.map(({ path, reason }) => problem(path, reason));
    return {
      made,
      shadowCopies: {
        used: true,
        problems: problems.slice(0, PROBLEMS_MAX),
        ...(problems.length > PROBLEMS_MAX ? { isCut: true } : {}),
      },
    };
  } catch (error) {
    if (!(error instanceof EngineError) || error.code !== 'SHADOW_COPY_DENIED') throw error;
    const made = await backup(false);
    return { made, shadowCopies: { used: false, problems: [problem('', ofWindows(error))] } };
  }
}

/** Only this line is passed on: the rest of the output may contain addresses. */
const ofWindows = ({ detail = '', message }: EngineError) =>
  detail.split('\n').find((line) => line.includes('VSS error: ')) ?? message;

const problem = (volume: string, message: string) => ({
  volume: firstCharacters(volume, VOLUME_MAX),
  message: firstCharacters(message === '' ? 'restic has not said why.' : message, MESSAGE_MAX),
});

/** The sources of a backup on this machine. Paths are as `pathText` writes them. */

/** Limit for a network share that does not answer. */
const PATIENCE_MS = 5000;

/** Which sources are backed up: on Linux without virtual file systems. */
async function presentSources(paths: readonly string[]): Promise<ChosenSources> {
  if (osType() !== 'linux') {
    return { paths: [...paths], patterns: [], firstPatterns: [], leftOut: [], refused: [] };
  }
  const mounts = await readMounts().catch(() => []);
  const sources = await Promise.all(
    paths.map(async (each) => {
      const plain = path.posix.resolve(each);
      const folder = await within(realFolder(path.posix.dirname(plain)), path.posix.dirname(plain));
      return { path: plain, real: path.posix.join(folder, path.posix.basename(plain)) };
    }),
  );
  return chooseSources(sources, mounts);
}

const realFolder = async (folder: string) =>
  nameText(await realpath(nameBytes(folder), { encoding: 'buffer' }));

/** At most this many folders are searched; a source with more of them counts as not empty. */
const FOLDERS_MAX = 1000;

/**
 * Existing sources without any file, such as the mount point of a disk that is not mounted. Call it after the
 * backup.
 */
async function sourcesWithoutFiles(paths: readonly string[]): Promise<string[]> {
  const empty = await Promise.all(paths.map((each) => within(holdsNothing(each), false)));
  return paths.filter((_each, n) => empty[n] === true);
}

/** Links are not followed, so a source that is a link has no files. */
async function holdsNothing(source: string): Promise<boolean> {
  const root = nameBytes(source);
  const found = await lstat(root);
  if (!found.isDirectory()) return found.isSymbolicLink();
  const folders = [root];
  for (let n = 0; n < folders.length; n += 1) {
    if (n >= FOLDERS_MAX) return false;
    const folder = folders[n] ?? root;
    // Latin-1 maps each byte of a name to one character.
    for await (const entry of await opendir(folder, { encoding: 'latin1' })) {
      if (!entry.isDirectory()) return false;
      const name = Buffer.from(path.sep + entry.name, 'latin1');
      if (folders.length <= FOLDERS_MAX) folders.push(Buffer.concat([folder, name]));
    }
  }
  return true;
}

/** The result of `work`; `otherwise` if it fails or takes too long. */
const within = <T>(work: Promise<T>, otherwise: T): Promise<T> =>
  Promise.race([
    work.catch(() => otherwise),
    clock.sleep(PATIENCE_MS, { unref: true }).then(() => otherwise),
  ]);

const isWindows = osType() === 'windows';
