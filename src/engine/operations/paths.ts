import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import type { Stats } from 'node:fs';
import { lstat, readdir } from 'node:fs/promises';
import { z } from 'zod';
import { pathBytes, printedPath, canonicalPath, pathText, PATH_TEXT_MAX } from '../../protocol/index.ts';
import { EngineError } from '../engine-error.ts';
import {
  type ReadNames,
  DiffChange,
  DiffStatistics,
  EngineEntry,
  SnapshotId,
  ExactNames,
} from '../process/documents.ts';
import type { UnreadablePath } from '../process/progress.ts';
import { Readable } from 'node:stream';
import type { Repository } from '../destination.ts';
import type { Engine } from '../engine.ts';
import { parseJson } from '../process/messages.ts';
import { runLines, streamBytes, streamLines, type RunOptions } from '../process/start-engine.ts';

const KEPT = 1000;
const COUNTED = 100_000;
const REASON_MAX = 300;

/** The first distinct paths of a list of any length, and their total number. */
export class PathList {
  readonly #kept = new Map<string, UnreadablePath>();
  /** Hashes of paths beyond the limit, because restic names a path more than once. */
  readonly #counted = new Set<string>();

  add({ path, reason }: UnreadablePath): void {
    const key = path.slice(0, PATH_TEXT_MAX);
    const known = this.#kept.get(key);
    // restic names a file when it counts and again when it reads.
    if (known !== undefined) known.reason ||= shortReason(reason);
    else if (this.#kept.size < KEPT) this.#kept.set(key, { path: key, reason: shortReason(reason) });
    else if (this.#counted.size < COUNTED) this.#counted.add(shortened(path));
  }

  get isEmpty(): boolean {
    return this.#kept.size === 0;
  }

  report(): PathReport {
    return { paths: [...this.#kept.values()], count: this.#kept.size + this.#counted.size };
  }
}

export interface PathReport {
  /** The first paths. */
  paths: UnreadablePath[];
  /** The total number, up to 101,000. */
  count: number;
}

/** Programs print the reason last, after the path. */
const shortReason = (reason: string): string =>
  reason.length <= REASON_MAX ? reason : `${reason.slice(0, 99)}…${reason.slice(-200)}`;

const shortened = (path: string) => createHash('sha1').update(path).digest('base64').slice(0, 16);

/** Paths on the disk of this machine, as `pathText` writes them. */

const UNKNOWN = '\ufffd';

/** Relative to a folder, in bytes. Windows names are characters. */
export function pathBelow(folder: string, path: string): Buffer {
  if (process.platform === 'win32') return Buffer.from(`${folder}${path}`);
  return Buffer.concat([Buffer.from(folder), pathBytes(path)]);
}

/**
 * Resolves a path in which restic prints U+FFFD for each byte that is not UTF-8: returns the only matching path, or
 * the printed one if there is none or more than one.
 */
export async function exactPath(printed: string, readNames: ReadNames): Promise<string> {
  if (!printed.includes(UNKNOWN)) return printed;
  let found = '';
  for (const name of printed.split('/').filter((each) => each !== '')) {
    const exact = name.includes(UNKNOWN) ? onlyOneLike(name, await readNames(found)) : name;
    if (exact === undefined) return printed;
    found += `/${exact}`;
  }
  return found;
}

function onlyOneLike(printed: string, names: readonly string[]): string | undefined {
  const wanted = printedPath(printed);
  const alike = names.filter((each) => printedPath(each) === wanted);
  return alike.length === 1 ? alike[0] : undefined;
}

/** The same for paths on the disk of this machine, below one of its folders. */
export const foundPath = (folder: string, printed: string): Promise<string> =>
  process.platform === 'win32'
    ? Promise.resolve(printed)
    : exactPath(printed, async (within) => {
        const at = pathBelow(folder, within);
        const names = await readdir(at.length === 0 ? '/' : at, { encoding: 'buffer' }).catch(() => []);
        return names.map((each) => pathText(each));
      });

/**
 * The real entry below a folder if no part of the path is a link or `..`; `undefined` otherwise, or if it does not
 * exist. Paths in restic's output may be chosen by an attacker.
 */
export async function plainBelow(folder: string, path: string): Promise<Stats | undefined> {
  const names = path.split('/').slice(1);
  const isPlain = names.every((name) => name !== '' && name !== '.' && name !== '..');
  if (!path.startsWith('/') || !isPlain) return undefined;
  let found: Stats | undefined;
  for (const n of names.keys()) {
    if (n > 0 && found?.isDirectory() !== true) return undefined;
    const at = pathBelow(folder, `/${names.slice(0, n + 1).join('/')}`);
    found = await lstat(at).catch(() => undefined);
  }
  return found;
}

/** `unknown`: this user has no access. */
export async function whetherThere(at: Buffer): Promise<'there' | 'too_long' | 'missing' | 'unknown'> {
  try {
    await lstat(at);
    return 'there';
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'ENAMETOOLONG') return 'too_long';
    return code === 'ENOENT' || code === 'ENOTDIR' ? 'missing' : 'unknown';
  }
}

/** Normalized: one slash before each name, and none at the end. */
const normalPath = (path: string): string =>
  `/${canonicalPath(path)
    .split('/')
    .filter((name) => name !== '')
    .join('/')}`;

/** A path in a snapshot, as `pathText` writes it: with slashes, from its root. */
export const SnapshotPath = z
  .string()
  .max(32_000)
  .refine(
    (each) => each.startsWith('/') && !each.includes('\0'),
    'must be a path from the root of the snapshot',
  )
  .refine(
    (each) => !each.split('/').some((name) => name === '..' || name === '.'),
    'must not contain . or ..',
  )
  .overwrite(normalPath);

/** Whether restic accepts the path: program arguments are characters. */
export const isArgument = (path: string): boolean => isUtf8(pathBytes(path));

function argumentOf(path: string): string {
  const bytes = pathBytes(path);
  if (!isUtf8(bytes)) throw new EngineError('PATH_MISSING', { detail: 'It is not UTF-8.' });
  return Buffer.from(bytes).toString('utf8');
}

/** Selected paths, each with everything below it. */
export class SelectedPaths {
  readonly #paths: ReadonlySet<string>;
  readonly #above = new Set<string>();
  readonly #found = new Set<string>();

  constructor(selected: readonly string[]) {
    this.#paths = new Set(selected.map(normalPath));
    for (const path of this.#paths) for (const parent of parentsOf(path)) this.#above.add(parent);
  }

  get size(): number {
    return this.#paths.size;
  }

  has(path: string): boolean {
    if (this.#paths.has(path)) this.#found.add(path);
    return [path, ...parentsOf(path), '/'].some((each) => this.#paths.has(each));
  }

  /** Whether the path itself was selected. */
  names(path: string): boolean {
    return this.#paths.has(path);
  }

  isAbove(path: string): boolean {
    return this.#above.has(path);
  }

  missing(): string[] {
    return [...this.#paths].filter((path) => path !== '/' && !this.#found.has(path));
  }
}

/** For `/a/b/c`: `/a/b` and `/a`. */
function parentsOf(path: string): string[] {
  const parents: string[] = [];
  for (let at = path.lastIndexOf('/'); at > 0; at = path.lastIndexOf('/', at - 1)) {
    parents.push(path.slice(0, at));
  }
  return parents;
}

/**
 * Escapes a path as a restic pattern that matches only this path. A character in brackets is literal on every system;
 * a backslash in brackets is not, so it is doubled.
 */
export function literalPattern(path: string): string {
  return path.replace(/[*?[]/g, '[$&]').replaceAll('\\', '\\\\');
}

/**
 * The same for a path as `pathText` writes it. A program argument cannot contain a byte that is not UTF-8. Go compares
 * such a byte with a class as U+FFFD, so the pattern also matches paths with another such byte in its place.
 */
export function includePattern(path: string): string {
  const pattern = literalPattern(printedPath(path));
  return isUtf8(pathBytes(path)) ? pattern : pattern.replaceAll('\ufffd', '[\ufffd]');
}

interface EntriesQuery {
  snapshotId: string;
  /** The direct content of one folder. Absent: the whole snapshot. */
  folder?: string;
  /** Reads names that are not UTF-8. Without it, U+FFFD stands for each of their bytes. */
  readNames?: ReadNames | undefined;
}

/**
 * Streams the files and folders of a snapshot, with paths as `pathText` writes them; leaving the loop stops restic.
 * restic walks the whole snapshot even for one folder, so pages are read by the reader (`openRepository`).
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

interface DumpQuery {
  snapshotId: string;
  path: string;
  /** Archive format of a folder. A file is returned as it is. */
  archive?: 'tar' | 'zip';
}

/**
 * The content of a file, or of a folder as an archive. The stream ends with an error if restic fails. Throws
 * PATH_MISSING for a path that is not UTF-8 (`isArgument`), which only the reader can open.
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

interface DiffQuery {
  from: string;
  to: string;
  onChange?: (change: DiffChange) => void | Promise<void>;
}

/** Calls `onChange` for each changed path, and returns the sums. */
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
