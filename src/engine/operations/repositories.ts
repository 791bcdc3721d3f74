import path from 'node:path';
import type { Repository } from '../destination.ts';
import { EngineError } from '../engine-error.ts';
import type { Engine } from '../engine.ts';
import {
  EngineConfig,
  parseDocument,
  SnapshotId,
  type EngineSnapshot,
  EngineSnapshots,
  EngineStats,
} from '../process/documents.ts';
import {
  runDocument,
  runLines,
  type RunOptions,
  type EngineEnd,
  type RunOptionsWithoutSignal,
  startEngine,
} from '../process/start-engine.ts';

interface InitOptions extends RunOptions {
  /** A repository with the same chunking parameters, so that a copy from it stores nothing twice. */
  chunkedLike?: Repository | undefined;
}

/**
 * Creates a repository. Throws REPOSITORY_EXISTS if there is one. A restic that cannot copy chunking parameters uses
 * its own: copies are unaffected, only data backed up directly would be stored a second time.
 */
export async function initRepository(
  engine: Engine,
  repository: Repository,
  { chunkedLike, ...options }: InitOptions = {},
): Promise<void> {
  if (chunkedLike !== undefined) {
    try {
      const args = () => ['init', '--copy-chunker-params'];
      await runDocument(engine, { ...options, repository, from: chunkedLike, args });
      return;
    } catch (error) {
      if (!(error instanceof EngineError) || error.code !== 'ENGINE_TOO_OLD') throw error;
    }
  }
  await runDocument(engine, { ...options, repository, args: () => ['init'] });
}

export async function readRepositoryId(
  engine: Engine,
  repository: Repository,
  options: RunOptions = {},
): Promise<string> {
  const args = () => ['cat', 'config'];
  const output = await runDocument(engine, { ...options, repository, noLock: true, args });
  return parseDocument(EngineConfig, output).id;
}

/**
 * Serves a repository as a read-only file system. restic continues when this process ends, so a caller records the
 * process that `onStart` reports. Without a lock: the caller must ensure that no data is removed meanwhile.
 * @param folder  the mount point; an existing mount there would only be hidden
 * @param errors  a descriptor for restic's output
 * @returns the exit of the process
 */
export function mountRepository(
  engine: Engine,
  repository: Repository,
  { folder, errors }: { folder: string; errors: number },
  options: RunOptionsWithoutSignal,
): Promise<EngineEnd> {
  const words = ['mount', '--path-template', '%I', folder];
  const call = { ...options, repository, noLock: true, outlives: { errors }, args: () => words };
  return startEngine(engine, call).ended;
}

/** The folder of a snapshot in a mounted repository. */
export const mountedFolder = (folder: string, snapshotId: string) =>
  path.join(folder, SnapshotId.parse(snapshotId));

interface CopyOptions extends RunOptions {
  /** Called with the number of copied snapshots, and the progress of the current one. */
  onProgress?: (snapshots: number, share: number) => void;
}

/**
 * Copies snapshots into another repository; all of them by default. Existing copies are skipped, and so are ids that
 * the source does not have. A copy gets its own id, and `original` contains the id that it was copied from.
 */
export async function copySnapshots(
  engine: Engine,
  { from, to }: { from: Repository; to: Repository },
  snapshotIds: readonly string[] = [],
  { onProgress, ...options }: CopyOptions = {},
): Promise<void> {
  const ids = snapshotIds.map((id) => SnapshotId.parse(id));
  let done = 0;
  const end = await runLines(
    engine,
    { ...options, repository: to, from, args: () => ['copy', ...ids] },
    (line) => {
      const share = shareOf(line);
      if (IS_DONE.test(line)) onProgress?.((done += 1), 0);
      else if (share !== undefined) onProgress?.(done, share);
    },
  );
  if (end.exitCode !== 0) throw end.failure();
}

/** `copy` prints text, also with `--json`. */
const IS_DONE = /^(snapshot [0-9a-f]{8,64} saved|skipping source snapshot )/;

function shareOf(line: string): number | undefined {
  const [, percent] = /(\d{1,3}\.\d\d)% .{0,100}packs copied/.exec(line) ?? [];
  return percent === undefined ? undefined : Math.min(1, Number(percent) / 100);
}

/** All snapshots of a repository. Without a lock: nothing is changed, and a locked repository can be listed. */
export async function listSnapshots(
  engine: Engine,
  repository: Repository,
  options: RunOptions = {},
): Promise<EngineSnapshot[]> {
  const args = () => ['snapshots'];
  return parseDocument(
    EngineSnapshots,
    await runDocument(engine, { ...options, repository, noLock: true, args }),
  );
}

/** The id if it is a full one. */
export const fullId = (id: string): string | null => (SnapshotId.safeParse(id).success ? id : null);

/** The full id for the short one that restic prints before 0.15; `null` if it cannot be resolved now. */
export async function fullSnapshotId(
  engine: Engine,
  repository: Repository,
  id: string,
): Promise<string | null> {
  if (fullId(id) !== null) return id;
  try {
    const args = () => ['snapshots', id];
    const output = await runDocument(engine, { repository, noLock: true, args });
    const found = parseDocument(EngineSnapshots, output).filter((each) => each.id.startsWith(id));
    return found.length === 1 ? (found[0]?.id ?? null) : null;
  } catch (error) {
    // The snapshot exists. The repository completes the id later.
    if (error instanceof EngineError) return null;
    throw error;
  }
}

interface StatsQuery {
  /** `restore`: the size of restored files. `stored`: the space used in the repository. */
  mode: 'restore' | 'stored';
  /** Absent: all snapshots. */
  snapshotId?: string;
}

export async function readStats(
  engine: Engine,
  repository: Repository,
  { mode, snapshotId }: StatsQuery,
  options: RunOptions = {},
): Promise<EngineStats> {
  const id = snapshotId === undefined ? [] : [SnapshotId.parse(snapshotId)];
  const args = () => ['stats', '--mode', mode === 'restore' ? 'restore-size' : 'raw-data', ...id];
  return parseDocument(
    EngineStats,
    await runDocument(engine, { ...options, repository, noLock: true, args }),
  );
}

const FORGET_BATCH = 200;

/**
 * Removes snapshots by their full ids, and returns those that existed. restic's own rules (`--keep-daily` and others)
 * are never used: they rely on times reported by the backed-up machine.
 */
export async function forgetSnapshots(
  engine: Engine,
  repository: Repository,
  snapshotIds: readonly string[],
  options: RunOptions = {},
): Promise<string[]> {
  const wanted = new Set(snapshotIds.map((id) => SnapshotId.parse(id)));
  const present = (await listSnapshots(engine, repository, options)).filter(({ id }) => wanted.has(id));
  const ids = present.map(({ id }) => id);
  for (let from = 0; from < ids.length; from += FORGET_BATCH) {
    const batch = ids.slice(from, from + FORGET_BATCH);
    await runDocument(engine, { ...options, repository, args: () => ['forget', ...batch] });
  }
  return ids;
}
