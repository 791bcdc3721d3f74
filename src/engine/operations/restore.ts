import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { clock } from '../../clock.ts';
import type { Repository } from '../destination.ts';
import type { Engine } from '../engine.ts';
import { EngineError } from '../engine-error.ts';
import { RestoreMessage, SnapshotId } from '../output/documents.ts';
import { includePattern } from '../output/literal-pattern.ts';
import { parseJson } from '../output/message.ts';
import type { PathReport } from '../output/path-list.ts';
import { type EngineProgress, type Measured, ProgressMeter } from '../output/progress.ts';
import { runLines } from '../process/run-engine.ts';
import type { RunOptions } from '../process/start-engine.ts';
import { addMissing, RestoreObserver } from './restore-report.ts';
import { isEmptyFolder, measureFolder, openRestoreTarget, removeUnselected } from './restore-target.ts';
import { isArgument, SnapshotPath } from './snapshot-path.ts';

/** They stand on the command line, which Windows limits to 32,767 characters. */
export const SELECTED_MAX = 20_000;

export const RestoreInput = z.strictObject({
  snapshotId: SnapshotId,
  /** A folder that does not exist yet, or that an earlier restore of the same user has left. */
  target: z.string(),
  /** Everything where it is missing. Paths are literal: `*` is a character of a name. */
  selected: z
    .array(SnapshotPath)
    .min(1)
    .refine(
      (all) => all.join('').length <= SELECTED_MAX,
      `must have at most ${SELECTED_MAX} characters in all`,
    )
    .optional(),
  /** What the restore has to write, where it is known: for the percentage, and to notice what is missing. */
  expected: z.strictObject({ bytes: z.number(), files: z.number() }).optional(),
});
export type RestoreInput = z.input<typeof RestoreInput>;

export interface RestoreOptions extends RunOptions {
  onProgress?: ((progress: EngineProgress) => void) | undefined;
  /** The paths of all files that have to be there. Asked where fewer are there than expected, to name the others. */
  listExpected?: (() => AsyncIterable<string>) | undefined;
}

export interface RestoreResult {
  /** `partial`: some paths could not be restored. There is always one that is named in `failed`. */
  status: 'completed' | 'partial';
  /** What lies in the target. */
  bytes: number;
  files: number;
  failed: PathReport;
}

/**
 * Restores into a folder of its own. Moving the content to its place is the caller's work. The result is counted on the
 * disk, where neither a file is that was not selected, nor one whose content is not whole.
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
          // The process also writes a little that is not restored.
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
    // With files that failed, restic ends as if everything had failed.
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

/** restic prints no progress before 0.16, so the target shows it. */
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

/** The bytes that a process has written anywhere; `undefined` where the system does not count them. */
async function writtenBy(pid: number): Promise<number | undefined> {
  const counts = await readFile(`/proc/${pid}/io`, 'utf8').catch(() => '');
  const [, written] = /^wchar: (\d+)$/m.exec(counts) ?? [];
  return written === undefined ? undefined : Number(written);
}
