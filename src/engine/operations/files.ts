import { Readable } from 'node:stream';
import type { Repository } from '../destination.ts';
import type { Engine } from '../engine.ts';
import { DiffChange, DiffStatistics, EngineEntry, SnapshotId } from '../output/documents.ts';
import { parseJson } from '../output/message.ts';
import { runLines, streamBytes, streamLines } from '../process/run-engine.ts';
import type { RunOptions } from '../process/start-engine.ts';
import { SnapshotPath } from './restore.ts';

export interface EntriesQuery {
  snapshotId: string;
  /** The content of one folder, without that of the folders in it. Everything where it is missing. */
  folder?: string;
}

/**
 * The files and folders of a snapshot, as they come; leaving the loop stops restic. It walks the whole snapshot even for
 * one folder, so pages are read with the reader (`openRepository`).
 */
export async function* listEntries(
  engine: Engine,
  repository: Repository,
  { snapshotId, folder }: EntriesQuery,
  options: RunOptions = {},
): AsyncGenerator<EngineEntry, void> {
  const id = SnapshotId.parse(snapshotId);
  const within = folder === undefined ? [] : [withoutSlash(SnapshotPath.parse(folder))];
  const args = () => ['ls', id, ...within];
  for await (const line of streamLines(engine, { ...options, repository, noLock: true, args })) {
    const entry = EngineEntry.safeParse(parseJson(line));
    if (entry.success && isBelow(entry.data.path, within[0])) yield entry.data;
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

/** The content of a file, or of a folder as an archive. The stream ends with an error where restic fails. */
export function dump(
  engine: Engine,
  repository: Repository,
  { snapshotId, path, archive = 'tar' }: DumpQuery,
  options: RunOptions = {},
): Readable {
  const words = ['dump', '--archive', archive, SnapshotId.parse(snapshotId), SnapshotPath.parse(path)];
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

const withoutSlash = (path: string) => (path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path);
