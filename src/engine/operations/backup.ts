import path from 'node:path';
import { z } from 'zod';
import { clock } from '../../clock.ts';
import { pathBytes, printedPath } from '../../protocol/index.ts';
import type { AddSecret, Repository } from '../destination.ts';
import { EngineError } from '../engine-error.ts';
import type { Engine } from '../engine.ts';
import { RetryWatch, LineSplitter } from '../process/error-output.ts';
import {
  type BackupSummary,
  parseBackupLine,
  parseShadowCopyFailure,
  parseUnreadable,
  type UnreadablePath,
  type EngineProgress,
  measuredBackup,
  ProgressMeter,
} from '../process/progress.ts';
import { runLines, type EngineEnd, type RunOptions, startEngine } from '../process/start-engine.ts';
import { PathList, type PathReport, foundPath, isArgument } from './paths.ts';
import { fullId, fullSnapshotId, listSnapshots } from './repositories.ts';
import { once } from 'node:events';
import type { Writable } from 'node:stream';

const PATHS_MAX = 10_000;
/** Excludes are arguments: Windows limits the command line to 32,767 characters, Linux to about two million. */
const EXCLUDES_MAX = process.platform === 'win32' ? 16_000 : 1_000_000;

/** One tag of a snapshot. restic separates tags by commas. */
const SnapshotTag = z.string().regex(/^[^\s,\p{Cc}]{1,100}$/u, 'must not contain spaces and commas');
/** Starts with a letter or a digit, so that it cannot be an option. */
const HostName = z
  .string()
  .max(255)
  .regex(/^[\p{L}\p{N}_]\P{Cc}*$/u, 'must be the name of a machine');

const Labels = { host: HostName, tags: z.array(SnapshotTag).max(20).default([]) };

const BackupInput = z.strictObject({
  /** As `pathText` writes them; Windows paths as they are. */
  paths: z
    .array(
      z
        .string()
        .max(32_000)
        .refine((each) => path.isAbsolute(each) && !each.includes('\0'), 'must be an absolute path'),
    )
    .min(1)
    .max(PATHS_MAX),
  /** Patterns in restic's syntax. */
  excludes: z
    .array(
      z
        .string()
        .min(1)
        .regex(/^[^\0\r\n]+$/, 'must be one line'),
    )
    .refine(
      (all) => all.join('').length <= EXCLUDES_MAX,
      `must have at most ${EXCLUDES_MAX} characters in all`,
    )
    .default([]),
  oneFileSystem: z.boolean().default(false),
  /** Reads from shadow copies of the volumes. Only restic for Windows supports it. */
  shadowCopies: z.boolean().default(false),
  ...Labels,
});
type BackupInput = z.input<typeof BackupInput>;

interface BackupOptions extends RunOptions {
  onProgress?: ((progress: EngineProgress) => void) | undefined;
  /**
   * The caller can find the snapshot in the repository itself. Otherwise restic before 0.15 is run once more for the
   * full id.
   */
  isSnapshotKnown?: boolean;
}

interface BackupResult {
  /** `partial`: some paths could not be read. The snapshot contains everything else. */
  status: 'completed' | 'partial';
  /** The full id; `null` if it is unknown, or if the destination did not respond after the snapshot was made. */
  snapshotId: string | null;
  shortId: string;
  filesNew: number;
  filesChanged: number;
  filesUnmodified: number;
  filesProcessed: number;
  bytesProcessed: number;
  /** The data added to the repository, before compression. */
  bytesAdded: number;
  seconds: number;
  unreadable: PathReport;
  /** Volumes that were read without a requested shadow copy. Open files may be missing or inconsistent. */
  volumesInUse: UnreadablePath[];
}

/** Makes a snapshot of folders and files. Throws SOURCE_UNREADABLE if none of the paths exists. */
export async function backup(
  engine: Engine,
  repository: Repository,
  input: BackupInput,
  { onProgress, isSnapshotKnown = false, ...options }: BackupOptions = {},
): Promise<BackupResult> {
  const { paths, excludes, oneFileSystem, shadowCopies, host, tags } = BackupInput.parse(input);
  const parent = paths.every(isNativeText)
    ? null
    : await findParent(engine, repository, { paths, host }, options);
  const args = (addSecret: AddSecret) => [
    'backup',
    // The only list of paths that allows every byte of a name.
    '--files-from-raw',
    addSecret(Buffer.concat(paths.flatMap((each) => [nativeBytes(each), Buffer.of(0)]))),
    ...(parent === null ? [] : ['--parent', parent]),
    '--host',
    host,
    ...tags.flatMap((tag) => ['--tag', tag]),
    ...excludes.map((pattern) => `--exclude=${pattern}`),
    ...(oneFileSystem ? ['--one-file-system'] : []),
    ...(shadowCopies ? ['--use-fs-snapshot'] : []),
  ];
  const retries = new RetryWatch(engine.giveUpAfterMs);
  const observed = new BackupObserver(onProgress, { retries, shadowCopies });
  const onErrorLine = (line: string, isCut: boolean) => observed.readError(line, isCut);
  const call = { ...options, repository, args, onErrorLine, retries };
  const end = await runLines(engine, call, (line) => observed.read(line));
  return observed.result(end, async (id) =>
    isSnapshotKnown ? fullId(id) : fullSnapshotId(engine, repository, id),
  );
}

const isNativeText = (path: string) => process.platform === 'win32' || isArgument(path);

const nativeBytes = (path: string): Uint8Array =>
  process.platform === 'win32' ? Buffer.from(path) : pathBytes(path);

/**
 * The parent snapshot, whose unchanged files need not be read again. restic finds it by its paths, unless they are not
 * UTF-8: it stores them in JSON.
 */
async function findParent(
  engine: Engine,
  repository: Repository,
  { paths, host }: { paths: readonly string[]; host: string },
  options: RunOptions,
): Promise<string | null> {
  const printed = new Set(paths.map((each) => printedPath(each).replace(/(?<=.)\/+$/, '')));
  const before = (await listSnapshots(engine, repository, options)).filter(
    (each) =>
      each.hostname === host &&
      each.paths.length === printed.size &&
      each.paths.every((known) => printed.has(known)),
  );
  return before.sort((one, other) => Date.parse(other.time) - Date.parse(one.time))[0]?.id ?? null;
}

const IS_ITEM = /^(\{"message_type":"error"|error)/;
const TOO_LONG = { path: '', reason: 'restic has named a file in a line that is too long' };
const UNNAMED = { path: '', reason: 'restic has not said what it could not read' };

/** With the names on the disk, if restic could not print them. */
async function exactly({ paths, count }: PathReport): Promise<PathReport> {
  const exact: UnreadablePath[] = [];
  for (const each of paths) exact.push({ ...each, path: await foundPath('', each.path) });
  return { paths: exact, count };
}

/** Parses the output of restic during a backup. */
export class BackupObserver {
  readonly #meter = new ProgressMeter();
  readonly #unreadable = new PathList();
  readonly #volumesInUse = new PathList();
  readonly #onProgress: ((progress: EngineProgress) => void) | undefined;
  readonly #retries: RetryWatch;
  readonly #shadowCopies: boolean;
  #bytes = 0;
  #summary: BackupSummary | undefined;

  constructor(
    onProgress: ((progress: EngineProgress) => void) | undefined,
    { retries, shadowCopies = false }: { retries: RetryWatch; shadowCopies?: boolean },
  ) {
    this.#onProgress = onProgress;
    this.#retries = retries;
    this.#shadowCopies = shadowCopies;
  }

  read(line: string): void {
    const message = parseBackupLine(line);
    if (message === undefined) return;
    if ('summary' in message) {
      this.#summary = message.summary;
      return;
    }
    const measured = measuredBackup(message.status);
    if (measured.bytes > this.#bytes) this.#retries.progressed();
    this.#bytes = measured.bytes;
    this.#onProgress?.(this.#meter.measure(measured, clock.monotonic()));
  }

  readError(line: string, isCut = false): boolean {
    const unreadable = isCut && IS_ITEM.test(line) ? TOO_LONG : parseUnreadable(line);
    if (unreadable === undefined) return false;
    // restic then reads the volume directly, so nothing is missing for this reason alone.
    const volume = this.#shadowCopies ? parseShadowCopyFailure(unreadable) : undefined;
    if (volume === undefined) this.#unreadable.add(unreadable);
    else this.#volumesInUse.add(volume);
    return true;
  }

  async result(end: EngineEnd, fullIdOf: (id: string) => Promise<string | null>): Promise<BackupResult> {
    const summary = this.#summary;
    // Exit code 3: the snapshot was made without the unreadable files.
    if (summary === undefined || (end.exitCode !== 0 && end.exitCode !== 3)) {
      throw this.#failure(end);
    }
    if (end.exitCode === 3 && this.#unreadable.isEmpty) this.#unreadable.add(UNNAMED);
    return {
      status: this.#unreadable.isEmpty ? 'completed' : 'partial',
      snapshotId: await fullIdOf(summary.snapshot_id),
      shortId: summary.snapshot_id.slice(0, 8),
      filesNew: summary.files_new,
      filesChanged: summary.files_changed,
      filesUnmodified: summary.files_unmodified,
      filesProcessed: summary.total_files_processed,
      bytesProcessed: summary.total_bytes_processed,
      bytesAdded: summary.data_added,
      seconds: summary.total_duration,
      unreadable: await exactly(this.#unreadable.report()),
      volumesInUse: this.#volumesInUse.report().paths,
    };
  }

  #failure(end: EngineEnd): EngineError {
    const failure = end.failure();
    if (failure.code !== 'ENGINE_FAILED' || this.#unreadable.isEmpty) return failure;
    const [first] = this.#unreadable.report().paths;
    const detail = [first?.path, first?.reason, failure.detail].join(': ');
    return new EngineError('SOURCE_UNREADABLE', { detail });
  }
}

const StreamInput = BackupInput.pick({ host: true, tags: true }).extend({
  /** The name of the only file of the snapshot. */
  fileName: z
    .string()
    .max(255)
    .refine(
      (name) => path.basename(name) === name && !/^[.-]|[\p{Cc}/\\]/u.test(name),
      'must be the name of a file',
    ),
});
type StreamInput = z.input<typeof StreamInput>;

interface StreamSource {
  /** Throwing ends the backup without a snapshot. */
  content: AsyncIterable<Uint8Array>;
  /**
   * Called when the content has ended, before restic sees the end. Rejecting ends the backup without a snapshot: check
   * the exit code of the producing program here.
   */
  confirm?: () => Promise<void>;
  /** Set if it is known. If the content has another length, the backup ends without a snapshot. */
  expectedBytes?: number;
}

const LINE_MAX = 1024 * 1024;

/**
 * Makes a snapshot of one stream. restic accepts any end of its input, so the input ends only when the source has
 * confirmed it. If restic then reports another number of bytes than it was given, the snapshot exists and is wrong:
 * the error carries its id, so that it can be removed.
 */
export async function backupStream(
  engine: Engine,
  repository: Repository,
  input: StreamInput,
  source: StreamSource,
  { onProgress, ...options }: Omit<BackupOptions, 'isSnapshotKnown'> = {},
): Promise<BackupResult> {
  const { fileName, host, tags } = StreamInput.parse(input);
  const retries = new RetryWatch(engine.giveUpAfterMs);
  const observed = new BackupObserver(onProgress, { retries });
  const running = startEngine(engine, {
    ...options,
    repository,
    hasInput: true,
    args: () => [
      'backup',
      '--stdin',
      '--stdin-filename',
      fileName,
      '--host',
      host,
      ...tags.flatMap((tag) => ['--tag', tag]),
    ],
    onErrorLine: (line, isCut) => observed.readError(line, isCut),
    retries,
  });
  const lines = new LineSplitter(LINE_MAX);
  running.stdout.on('data', (bytes: Buffer) => lines.push(bytes).forEach(({ text }) => observed.read(text)));
  running.stdout.on('error', () => {});

  const hasEnded = new AbortController();
  void running.ended.then(() => hasEnded.abort());
  let fed = 0;
  let failure: EngineError | undefined;
  try {
    fed = await feed(source, running.stdin, hasEnded.signal);
    running.stdin.end();
  } catch (error) {
    // If restic is interrupted before its input ends, it makes no snapshot.
    running.stop();
    failure = sourceFailure(error);
  }
  const end = await running.ended;
  lines.end().forEach(({ text }) => observed.read(text));
  if (options.signal?.aborted === true && end.exitCode !== 0) throw end.failure();
  if (failure !== undefined) throw failure;
  const result = await observed.result(end, (id) => fullSnapshotId(engine, repository, id));
  if (result.bytesProcessed !== fed) {
    throw new EngineError('SOURCE_UNREADABLE', {
      detail: `restic has stored ${result.bytesProcessed} of ${fed} bytes.`,
      snapshotId: result.snapshotId ?? result.shortId,
    });
  }
  return result;
}

/** Writes the content, and returns its length once the source has confirmed it. */
async function feed(source: StreamSource, input: Writable, hasEnded: AbortSignal): Promise<number> {
  let fed = 0;
  for await (const bytes of source.content) {
    // A program that has ended no longer reads its input. Its own failure is reported.
    if (hasEnded.aborted) return fed;
    fed += bytes.byteLength;
    if (!input.write(bytes)) await once(input, 'drain', { signal: hasEnded }).catch(() => {});
  }
  if (source.expectedBytes !== undefined && source.expectedBytes !== fed) {
    throw new Error(`The source has ended after ${fed} of ${source.expectedBytes} bytes.`);
  }
  await source.confirm?.();
  return fed;
}

function sourceFailure(error: unknown): EngineError {
  if (error instanceof EngineError) return error;
  const detail = error instanceof Error ? error.message : String(error);
  return new EngineError('SOURCE_UNREADABLE', { detail, cause: error });
}
