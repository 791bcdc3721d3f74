import path from 'node:path';
import { z } from 'zod';
import { clock } from '../../clock.ts';
import { pathBytes, printedPath } from '../../protocol/index.ts';
import type { AddSecret, Repository } from '../destination.ts';
import type { Engine } from '../engine.ts';
import { EngineError } from '../engine-error.ts';
import {
  type BackupSummary,
  parseBackupLine,
  parseShadowCopyFailure,
  parseUnreadable,
  type UnreadablePath,
} from '../output/backup-output.ts';
import { PathList, type PathReport } from '../output/path-list.ts';
import { type EngineProgress, measuredBackup, ProgressMeter } from '../output/progress.ts';
import { runLines } from '../process/run-engine.ts';
import { RetryWatch } from '../process/retry-watch.ts';
import type { EngineEnd, RunOptions } from '../process/start-engine.ts';
import { foundPath } from './found-path.ts';
import { isArgument } from './snapshot-path.ts';
import { fullId, fullSnapshotId, listSnapshots } from './snapshots.ts';

const PATHS_MAX = 10_000;
/** They stand on the command line, which Windows limits to 32,767 characters, and Linux to about two million. */
const EXCLUDES_MAX = process.platform === 'win32' ? 16_000 : 1_000_000;

/** One tag of a snapshot. restic separates tags by commas. */
export const SnapshotTag = z.string().regex(/^[^\s,\p{Cc}]{1,100}$/u, 'must not contain spaces and commas');
/** Starts with a letter or a digit, so that it cannot be an option. */
const HostName = z
  .string()
  .max(255)
  .regex(/^[\p{L}\p{N}_]\P{Cc}*$/u, 'must be the name of a machine');

const Labels = { host: HostName, tags: z.array(SnapshotTag).max(20).default([]) };

export const BackupInput = z.strictObject({
  /** As `pathText` writes them; those of Windows as they are. */
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
  /** Reads from shadow copies of the volumes. Only restic for Windows knows it. */
  shadowCopies: z.boolean().default(false),
  ...Labels,
});
export type BackupInput = z.input<typeof BackupInput>;

export interface BackupOptions extends RunOptions {
  onProgress?: ((progress: EngineProgress) => void) | undefined;
  /** Who keeps the repository knows the snapshot. Otherwise restic before 0.15 is run once more to find out its full id. */
  isSnapshotKnown?: boolean;
}

export interface BackupResult {
  /** `partial`: some paths could not be read. The snapshot holds everything else. */
  status: 'completed' | 'partial';
  /** In full; `null` where it was not to be found out, or the destination did not answer after the snapshot was made. */
  snapshotId: string | null;
  shortId: string;
  filesNew: number;
  filesChanged: number;
  filesUnmodified: number;
  filesProcessed: number;
  bytesProcessed: number;
  /** What the snapshot added to the repository, before compression. */
  bytesAdded: number;
  seconds: number;
  unreadable: PathReport;
  /** Volumes that were read without a shadow copy, although one was wanted. Files in use may be missing or torn. */
  volumesInUse: UnreadablePath[];
}

/** Makes a snapshot of folders and files. Throws SOURCE_UNREADABLE where none of the paths exists. */
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
 * The snapshot before, of which unchanged files need not be read again. restic finds it by its paths, and not where they
 * are not UTF-8: it keeps them in JSON.
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

/** With the names that files have on the disk, where restic could not print them. */
async function exactly({ paths, count }: PathReport): Promise<PathReport> {
  const exact: UnreadablePath[] = [];
  for (const each of paths) exact.push({ ...each, path: await foundPath('', each.path) });
  return { paths: exact, count };
}

/** Reads what restic prints during a backup. */
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
    // restic then reads the volume as it is, so nothing is missing for this reason alone.
    const volume = this.#shadowCopies ? parseShadowCopyFailure(unreadable) : undefined;
    if (volume === undefined) this.#unreadable.add(unreadable);
    else this.#volumesInUse.add(volume);
    return true;
  }

  async result(end: EngineEnd, fullIdOf: (id: string) => Promise<string | null>): Promise<BackupResult> {
    const summary = this.#summary;
    // Exit code 3: the snapshot was made, without what could not be read.
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
