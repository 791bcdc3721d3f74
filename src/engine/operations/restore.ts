import { readFile, unlink, lstat, mkdir, readdir, rm } from 'node:fs/promises';
import { z } from 'zod';
import { clock } from '../../clock.ts';
import type { Repository } from '../destination.ts';
import { EngineError } from '../engine-error.ts';
import type { Engine } from '../engine.ts';
import { RestoreMessage, SnapshotId } from '../process/documents.ts';
import { parseJson } from '../process/messages.ts';
import {
  type EngineProgress,
  type Measured,
  ProgressMeter,
  parseNotRestored,
  type UnreadablePath,
} from '../process/progress.ts';
import { runLines, type RunOptions } from '../process/start-engine.ts';
import {
  includePattern,
  isArgument,
  SnapshotPath,
  type PathReport,
  PathList,
  foundPath,
  pathBelow,
  plainBelow,
  whetherThere,
  SelectedPaths,
} from './paths.ts';
import type { Stats } from 'node:fs';
import path from 'node:path';
import { PATH_TEXT_MAX, pathText } from '../../protocol/index.ts';

/** The selected paths are on the command line, which Windows limits to 32,767 characters. */
export const SELECTED_MAX = 20_000;

const RestoreInput = z.strictObject({
  snapshotId: SnapshotId,
  /** A new folder, or one left by an earlier restore of the same user. */
  target: z.string(),
  /** Absent: the whole snapshot. Paths are literal: `*` is an ordinary character. */
  selected: z
    .array(SnapshotPath)
    .min(1)
    .refine(
      (all) => all.join('').length <= SELECTED_MAX,
      `must have at most ${SELECTED_MAX} characters in all`,
    )
    .optional(),
  /** The expected amount, if it is known: for the percentage, and to detect missing files. */
  expected: z.strictObject({ bytes: z.number(), files: z.number() }).optional(),
});
type RestoreInput = z.input<typeof RestoreInput>;

interface RestoreOptions extends RunOptions {
  onProgress?: ((progress: EngineProgress) => void) | undefined;
  /** The paths of all expected files. Called if fewer are found than expected, to name the missing ones. */
  listExpected?: (() => AsyncIterable<string>) | undefined;
}

interface RestoreResult {
  /** `partial`: some paths could not be restored. At least one is named in `failed`. */
  status: 'completed' | 'partial';
  /** The files and bytes in the target. */
  bytes: number;
  files: number;
  failed: PathReport;
}

/**
 * Restores into its own folder. Moving the content to its final place is up to the caller. The result is counted on
 * the disk, after files that were not selected and incomplete files were removed.
 */
export async function restore(
  engine: Engine,
  repository: Repository,
  input: RestoreInput,
  { onProgress, listExpected, ...options }: RestoreOptions = {},
): Promise<RestoreResult> {
  const { snapshotId, target, selected = [], expected } = RestoreInput.parse(input);
  const { restoreJson, sparseRestore } = engine.program.capabilities;
  const { signal = new AbortController().signal } = options;
  await openRestoreTarget(target);

  const observed = new RestoreObserver();
  const meter = new ProgressMeter();
  const publish = (measured: Measured) => onProgress?.(meter.measure(measured, clock.monotonic()));
  const stopMeasuring = new AbortController();
  let pid: number | undefined;
  const onStart = (started: number) => {
    pid = started;
    options.onStart?.(started);
  };
  const measuring =
    restoreJson || onProgress === undefined
      ? Promise.resolve()
      : repeatedly(stopMeasuring.signal, async (stopped) => {
          const written = pid === undefined ? undefined : await writtenBy(pid);
          const measured = await measureFolder(target, stopped, { sizes: written === undefined });
          if (stopped.aborted) return;
          const [totalBytes, totalFiles] = [expected?.bytes ?? null, expected?.files ?? null];
          // The process also writes a little besides the restored data.
          const bytes = Math.min(written ?? measured.bytes, totalBytes ?? Infinity);
          publish({ bytes, files: measured.files, totalBytes, totalFiles });
        });
  const args = () => [
    'restore',
    snapshotId,
    '--target',
    target,
    ...selected.map((each) => `--include=${includePattern(each)}`),
    ...(sparseRestore ? ['--sparse'] : []),
  ];
  const onErrorLine = (line: string) => observed.readError(line);
  try {
    const end = await runLines(engine, { ...options, repository, onStart, onErrorLine, args }, (line) => {
      const message = RestoreMessage.safeParse(parseJson(line));
      if (message.success) publish(measuredRestore(message.data));
    });
    if (observed.isTargetFull) throw new EngineError('TARGET_FULL');
    // If files have failed, restic exits as if the whole run had failed.
    const isFinished = end.exitCode === 1 && observed.isFinished && !end.wasCancelled;
    if (end.exitCode !== 0 && !isFinished) throw end.failure();
  } finally {
    stopMeasuring.abort();
    await measuring;
  }
  const failed = await observed.failed(target, listExpected);
  if (!selected.every(isArgument)) await removeUnselected(target, selected);
  const found = await measureFolder(target, signal);
  signal.throwIfAborted();
  const isUnknown = selected.length > 0 && expected === undefined && failed.isEmpty;
  if (isUnknown && found.files === 0 && (await isEmptyFolder(target))) {
    throw new EngineError('PATH_MISSING');
  }
  await addMissing(failed, { target, found, expected, selected, listExpected });
  const { files, bytes } = found;
  return { status: failed.isEmpty ? 'completed' : 'partial', files, bytes, failed: failed.report() };
}

function measuredRestore(message: z.output<typeof RestoreMessage>): Measured {
  return {
    bytes: message.bytes_restored + message.bytes_skipped,
    files: message.files_restored + message.files_skipped,
    totalBytes: message.total_bytes === 0 ? null : message.total_bytes,
    totalFiles: message.total_files === 0 ? null : message.total_files,
  };
}

const MEASURE_EVERY_MS = 2000;
/** Measuring takes at most this part of the time. */
const MEASURE_SHARE = 0.1;

/** restic prints no progress before 0.16, so the target is measured. */
async function repeatedly(
  signal: AbortSignal,
  measure: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  for (let waitMs = MEASURE_EVERY_MS / 4; !signal.aborted; ) {
    await clock.sleep(waitMs, { signal }).catch(() => {});
    const before = clock.monotonic();
    await measure(signal);
    waitMs = Math.max(MEASURE_EVERY_MS, (clock.monotonic() - before) / MEASURE_SHARE);
  }
}

/** The bytes that a process has written anywhere; `undefined` if the system does not count them. */
async function writtenBy(pid: number): Promise<number | undefined> {
  const counts = await readFile(`/proc/${pid}/io`, 'utf8').catch(() => '');
  const [, written] = /^wchar: (\d+)$/m.exec(counts) ?? [];
  return written === undefined ? undefined : Number(written);
}

/** Finds the files that were not restored, by restic's messages and by the files on the disk. */

interface Restored {
  target: string;
  found: FolderSize & { isWhole: boolean };
  expected: FolderSize | undefined;
  selected: readonly string[];
  listExpected: (() => AsyncIterable<string>) | undefined;
}

/** Names the expected files that are missing, independent of restic's messages. */
async function addMissing(
  failed: PathList,
  { target, found, expected, selected, listExpected }: Restored,
): Promise<void> {
  const nameMissing = async (path: string) => {
    const state = await whetherThere(pathBelow(target, path));
    const reason = WHY_MISSING[state];
    if (reason !== undefined) failed.add({ path, reason });
    return reason !== undefined;
  };
  for (const path of selected) await nameMissing(path);
  let missing = (expected?.files ?? 0) - found.files;
  if (missing <= 0 || !found.isWhole) return;
  for await (const path of listExpected?.() ?? []) if (await nameMissing(path)) missing -= 1;
  if (missing <= 0 && !failed.isEmpty) return;
  if (missing > 0 && listExpected !== undefined) {
    failed.add({ path: '', reason: `${missing} files have names that are the same on this disk` });
  } else if (failed.isEmpty) failed.add({ path: '', reason: `${missing} files are missing` });
}

const WHY_MISSING: Partial<Record<Awaited<ReturnType<typeof whetherThere>>, string>> = {
  missing: 'restic has not restored it',
  too_long: 'its path is too long for this machine',
};

const NAMED_MAX = 100_000;
/** Beyond this number, incomplete files are not resolved one by one. */
const TORN_MAX = 1_000_000;
/** Space for a path, and twice as much for a reason that repeats it with the target's path. */
const LINE_MAX = 3 * PATH_TEXT_MAX;
const IS_FILE = /^(ignoring error for |\{"message_type":"error")/;
/** Space for restic's own text. */
const IS_OTHER = /^(\{|Fatal: |restoring |Load\()|returned error, retrying after|^\s*$/;
const IS_FULL = /no space left on device|not enough space|quota exceeded/i;
/** restic has processed the whole snapshot. Without this line, the run was aborted. */
const HAS_ENDED = /There were \d+ errors/;
/** The file's content is complete then. */
const IS_METADATA =
  /\b(l?chown|l?chmod|l?utimes\w*|\w*xattr|attributes?|acl|security descriptor|operation not (permitted|supported))\b/i;

/** Parses restic's messages about single files. */
export class RestoreObserver {
  readonly #lines: string[] = [];
  /** Whether the next line may continue the last one. */
  #isOpen = false;
  #hasEnded = false;
  isTargetFull = false;

  get isFinished(): boolean {
    return this.#hasEnded;
  }

  readError(line: string): boolean {
    const isFile = IS_FILE.test(line);
    // A name with line breaks takes several lines.
    const isMore = this.#isOpen && !isFile && !IS_OTHER.test(line);
    this.isTargetFull ||= (isFile || isMore) && IS_FULL.test(line);
    this.#hasEnded ||= HAS_ENDED.test(line);
    if (isMore) this.#lines.push(`${this.#lines.pop() ?? ''}\n${line}`.slice(0, LINE_MAX));
    const isKept = isFile && this.#lines.length < (IS_METADATA.test(line) ? NAMED_MAX : TORN_MAX);
    if (isKept) this.#lines.push(line);
    this.#isOpen = isMore || (isKept && !line.startsWith('{'));
    return isFile || isMore;
  }

  /**
   * Paths named in messages. Incomplete files are removed.
   * @param listExpected  the paths of all files, requested if a line may name several missing ones
   */
  async failed(target: string, listExpected: Restored['listExpected']): Promise<PathList> {
    const failed = new PathList();
    const torn = new Set<string>();
    if (this.#lines.length >= TORN_MAX) throw new EngineError('REPOSITORY_DAMAGED');
    const named: NamedPath[] = [];
    for (const line of this.#lines) named.push(await namedPath(target, line));
    await settleByList(named, listExpected);
    for (const { path, reason: said } of named) {
      // The prefix is our own folder, and the message follows the path.
      const reason = said.replaceAll(` ${nativeText(pathBelow(target, path))}`, '');
      failed.add({ path, reason });
      if (!IS_METADATA.test(reason)) torn.add(path);
    }
    await removeTorn(target, torn, failed);
    return failed;
  }
}

/** Includes their hard links, which restic links to the first file even if that failed. */
async function removeTorn(target: string, torn: ReadonlySet<string>, failed: PathList): Promise<void> {
  const named = new Set<string>();
  for (const path of torn) {
    const found = await plainBelow(target, path);
    if (found?.isFile() !== true) continue;
    if (found.nlink > 1) named.add(fileId(found));
    await unlink(pathBelow(target, path));
  }
  if (named.size === 0) return;
  for await (const path of filesIn(target)) {
    const found = await plainBelow(target, path);
    if (found === undefined || !named.has(fileId(found))) continue;
    failed.add({ path, reason: 'a part of the file is missing' });
    await unlink(pathBelow(target, path));
  }
}

const fileId = ({ dev, ino }: Stats) => `${dev} ${ino}`;

const nativeText = (path: Buffer): string =>
  process.platform === 'win32' ? path.toString('utf8') : pathText(path);

interface NamedPath extends UnreadablePath {
  /** Longer paths that the line could also name, if neither it nor any of them is on the disk. */
  others?: UnreadablePath[];
}

/**
 * The path in a line. In text it ends with a colon, which may also be part of it: the longest existing path is taken.
 */
async function namedPath(target: string, line: string): Promise<NamedPath> {
  const named = parseNotRestored(line) ?? { path: '', reason: line };
  if (line.startsWith('{')) return { ...named, path: await foundPath(target, named.path) };
  const text = `${named.path}: ${named.reason}`;
  const others: UnreadablePath[] = [];
  for (let at = text.lastIndexOf(': '); at > named.path.length; at = text.lastIndexOf(': ', at - 1)) {
    const longer = { path: text.slice(0, at), reason: text.slice(at + 2) };
    if ((await plainBelow(target, longer.path)) !== undefined) return longer;
    others.push(longer);
  }
  return (await plainBelow(target, named.path)) === undefined ? { ...named, others } : named;
}

/** restic may fail before it creates a file. Then only the list of the snapshot shows which path a line names. */
async function settleByList(
  named: readonly NamedPath[],
  listExpected: Restored['listExpected'],
): Promise<void> {
  const wanted = new Map<string, { line: NamedPath; other: UnreadablePath }[]>();
  for (const line of named) {
    for (const other of line.others ?? []) {
      const known = wanted.get(other.path);
      if (known === undefined) wanted.set(other.path, [{ line, other }]);
      else known.push({ line, other });
    }
  }
  if (wanted.size === 0 || listExpected === undefined) return;
  for await (const path of listExpected()) {
    for (const { line, other } of wanted.get(path) ?? []) {
      if (path.length > line.path.length) Object.assign(line, other);
    }
  }
}

const WRITABLE_BY_OTHERS = 0o022;

/**
 * Creates the folder that restic restores into, or accepts one from an earlier restore. restic follows links in it and
 * overwrites their targets, so no other user may be able to create one there.
 */
async function openRestoreTarget(folder: string): Promise<void> {
  if (!path.isAbsolute(folder) || folder.includes('\0')) throw unsafe('it must be an absolute path.');
  if (path.dirname(path.resolve(folder)) === path.resolve(folder)) throw unsafe('it is the root of a disk.');
  try {
    await mkdir(folder, { mode: 0o700 });
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) {
      throw unsafe('it cannot be created.', error);
    }
  }
  const found = await lstat(folder);
  if (!found.isDirectory()) throw unsafe('it is not a folder.');
  if (process.platform === 'win32') return;
  if (found.uid !== process.getuid?.()) throw unsafe('it belongs to another user.');
  if ((found.mode & WRITABLE_BY_OTHERS) !== 0) throw unsafe('other users can write to it.');
}

interface FolderSize {
  bytes: number;
  files: number;
}

/** How many files are examined at the same time. */
const ASKED_AT_ONCE = 64;

/**
 * The amount of data in a folder. Links are not followed; files that disappear meanwhile are not counted. `isWhole`:
 * every folder in it could be read.
 * @param sizes  whether file sizes are read from the disk
 */
async function measureFolder(
  folder: string,
  signal: AbortSignal,
  { sizes = true }: { sizes?: boolean } = {},
): Promise<FolderSize & { isWhole: boolean }> {
  const size = { bytes: 0, files: 0, isWhole: true };
  // In bytes, because names need not be valid UTF-8.
  const folders = [Buffer.from(folder)];
  for (let next = folders.pop(); next !== undefined && !signal.aborted; next = folders.pop()) {
    const files: Buffer[] = [];
    try {
      for (const entry of await readdir(next, { withFileTypes: true, encoding: 'buffer' })) {
        const file = Buffer.concat([next, Buffer.from(path.sep), entry.name]);
        if (entry.isDirectory()) folders.push(file);
        else size.files += 1;
        if (entry.isFile() && sizes) files.push(file);
      }
    } catch {
      // Progress is an estimate; a folder that cannot be read does not stop the restore.
      size.isWhole = false;
    }
    for (let from = 0; from < files.length && !signal.aborted; from += ASKED_AT_ONCE) {
      const some = files.slice(from, from + ASKED_AT_ONCE);
      const found = await Promise.all(some.map((file) => lstat(file).catch(() => undefined)));
      for (const each of found) size.bytes += each?.size ?? 0;
    }
  }
  return size;
}

/** The paths of all regular files in a folder, as `pathText` writes them. Links are not followed. */
async function* filesIn(folder: string): AsyncGenerator<string, void> {
  const folders = [''];
  for (let within = folders.pop(); within !== undefined; within = folders.pop()) {
    const entries = await readdir(pathBelow(folder, within), {
      withFileTypes: true,
      encoding: 'buffer',
    }).catch(() => []);
    for (const entry of entries) {
      const each = `${within}/${pathText(entry.name)}`;
      if (entry.isDirectory()) folders.push(each);
      else if (entry.isFile()) yield each;
    }
  }
}

/**
 * Removes files from a restored folder that were not selected: a restic pattern also matches paths that look like the
 * selected ones.
 */
async function removeUnselected(folder: string, selected: readonly string[]): Promise<void> {
  const wanted = new SelectedPaths(selected);
  const folders = [''];
  for (let within = folders.pop(); within !== undefined; within = folders.pop()) {
    const at = pathBelow(folder, within);
    for (const entry of await readdir(at, { withFileTypes: true, encoding: 'buffer' })) {
      const each = `${within}/${pathText(entry.name)}`;
      if (wanted.has(each)) continue;
      if (entry.isDirectory() && wanted.isAbove(each)) folders.push(each);
      else await rm(pathBelow(folder, each), { recursive: true, force: true, maxRetries: 3 });
    }
  }
}

const isEmptyFolder = async (folder: string) => (await readdir(folder)).length === 0;

const unsafe = (why: string, cause?: unknown) =>
  new EngineError('TARGET_UNSAFE', { message: `The folder to restore to is not safe: ${why}`, cause });
