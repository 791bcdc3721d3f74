import { Readable } from 'node:stream';
import type { Repository } from '../destination.ts';
import type { Engine } from '../engine.ts';
import { DiffChange, DiffStatistics, EngineEntry, SnapshotId } from '../output/documents.ts';
import { ExactNames, type ReadNames } from '../output/exact-names.ts';
import { parseJson } from '../output/message.ts';
import { runLines, streamBytes, streamLines } from '../process/run-engine.ts';
import type { RunOptions } from '../process/start-engine.ts';
import { argumentOf, SnapshotPath } from './snapshot-path.ts';

export interface EntriesQuery {
  snapshotId: string;
  /** The content of one folder, without that of the folders in it. Everything where it is missing. */
  folder?: string;
  /** Reads names that are not UTF-8. Without it, U+FFFD stands for each of their bytes. */
  readNames?: ReadNames | undefined;
}

/**
 * The files and folders of a snapshot, as they come, with paths as `pathText` writes them; leaving the loop stops restic.
 * It walks the whole snapshot even for one folder, so pages are read with the reader (`openRepository`).
 */
export async function* listEntries(
  engine: Engine,
  repository: Repository,
  { snapshotId, folder, readNames }: EntriesQuery,
  options: RunOptions = {},
): AsyncGenerator<EngineEntry, void> {
  const id = SnapshotId.parse(snapshotId);
  const within = folder === undefined ? undefined : SnapshotPath.parse(folder);
  const args = () => ['ls', id, ...(within === undefined ? [] : [argumentOf(within)])];
  const names = new ExactNames(readNames);
  for await (const line of streamLines(engine, { ...options, repository, noLock: true, args })) {
    const entry = EngineEntry.safeParse(parseJson(line));
    if (!entry.success) continue;
    const exact = await names.of(entry.data);
    if (isBelow(exact.path, within)) yield exact;
  }
}

/** restic also lists the folder itself and the folders above it. */
function isBelow(path: string, folder: string | undefined): boolean {
  if (folder === undefined) return true;
  const start = folder === '/' ? '/' : `${folder}/`;
  return path.startsWith(start) && path.length > start.length;
}

export interface DumpQuery {
  snapshotId: string;
  path: string;
  /** For a folder. A file comes as it is. */
  archive?: 'tar' | 'zip';
}

/**
 * The content of a file, or of a folder as an archive. The stream ends with an error where restic fails. Throws
 * PATH_MISSING for a path that is not UTF-8 (`isArgument`): the reader opens such a one.
 */
export function dump(
  engine: Engine,
  repository: Repository,
  { snapshotId, path, archive = 'tar' }: DumpQuery,
  options: RunOptions = {},
): Readable {
  const wanted = argumentOf(SnapshotPath.parse(path));
  const words = ['dump', '--archive', archive, SnapshotId.parse(snapshotId), wanted];
  const bytes = streamBytes(engine, { ...options, repository, args: () => words });
  return Readable.from(bytes, { objectMode: false });
}

export interface DiffQuery {
  from: string;
  to: string;
  onChange?: (change: DiffChange) => void | Promise<void>;
}

/** Offers each changed path, and returns the sums. */
export async function diffSnapshots(
  engine: Engine,
  repository: Repository,
  { from, to, onChange }: DiffQuery,
  options: RunOptions = {},
): Promise<DiffStatistics | undefined> {
  const words = ['diff', SnapshotId.parse(from), SnapshotId.parse(to)];
  let statistics: DiffStatistics | undefined;
  const call = { ...options, repository, args: () => words };
  const end = await runLines(engine, call, async (line) => {
    const value = parseJson(line);
    const change = DiffChange.safeParse(value);
    if (change.success) await onChange?.(change.data);
    else statistics = DiffStatistics.safeParse(value).data ?? statistics;
  });
  if (end.exitCode !== 0) throw end.failure();
  return statistics;
}
