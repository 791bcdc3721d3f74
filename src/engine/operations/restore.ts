import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { clock } from '../../clock.ts';
import type { Repository } from '../destination.ts';
import type { Engine } from '../engine.ts';
import { EngineError } from '../engine-error.ts';
import { parseNotRestored } from '../output/backup-output.ts';
import { RestoreMessage, SnapshotId } from '../output/documents.ts';
import { literalPattern } from '../output/literal-pattern.ts';
import { parseJson } from '../output/message.ts';
import { PathList, type PathReport } from '../output/path-list.ts';
import { type EngineProgress, type Measured, ProgressMeter } from '../output/progress.ts';
import { runLines } from '../process/run-engine.ts';
import type { RunOptions } from '../process/start-engine.ts';
import { isEmptyFolder, measureFolder, openRestoreTarget } from './restore-target.ts';

/** They stand on the command line, which Windows limits to 32,767 characters. */
const SELECTED_MAX = 16_000;

/** A path as it stands in the snapshot: with slashes, from its root. */
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
  );

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
  /** What the restore will write, where it is known: for the percentage, and for the result where nothing fails. */
  expected: z.strictObject({ bytes: z.number(), files: z.number() }).optional(),
});
export type RestoreInput = z.input<typeof RestoreInput>;

export interface RestoreOptions extends RunOptions {
  onProgress?: ((progress: EngineProgress) => void) | undefined;
}

export interface RestoreResult {
  /** `partial`: some paths could not be restored. */
  status: 'completed' | 'partial';
  /** What was restored. */
  bytes: number;
  files: number;
  failed: PathReport;
}

/** Restores into a folder of its own. Moving the content to its place is the caller's work. */
export async function restore(
  engine: Engine,
  repository: Repository,
  input: RestoreInput,
  { onProgress, ...options }: RestoreOptions = {},
): Promise<RestoreResult> {
  const { snapshotId, target, selected = [], expected } = RestoreInput.parse(input);
  const { restoreJson, sparseRestore } = engine.program.capabilities;
  await openRestoreTarget(target);

  const failed = new PathList();
  let isTargetFull = false;
  const onErrorLine = (line: string) => {
    const found = parseNotRestored(line);
    if (found === undefined) return false;
    isTargetFull ||= /no space left on device|not enough space|quota exceeded/i.test(found.reason);
    failed.add(found);
    return true;
  };
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
      : repeatedly(stopMeasuring.signal, async (signal) => {
          const written = pid === undefined ? undefined : await writtenBy(pid);
          const measured = await measureFolder(target, signal, written === undefined ? undefined : () => 0);
          if (signal.aborted) return;
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
    ...selected.map((each) => `--include=${literalPattern(each)}`),
    ...(sparseRestore ? ['--sparse'] : []),
  ];
  try {
    const end = await runLines(engine, { ...options, repository, onStart, onErrorLine, args }, (line) => {
      const message = RestoreMessage.safeParse(parseJson(line));
      if (message.success) publish(measuredRestore(message.data));
    });
    if (isTargetFull) throw new EngineError('TARGET_FULL');
    // With files that failed, restic ends as if everything had failed.
    if (end.exitCode !== 0 && (end.wasCancelled || failed.isEmpty || end.exitCode !== 1)) throw end.failure();
  } finally {
    stopMeasuring.abort();
    await measuring;
  }
  // Where nothing has failed, everything is there. Asking the disk about each file takes as long as restoring small ones.
  const size =
    failed.isEmpty && expected !== undefined
      ? { bytes: expected.bytes, files: expected.files }
      : await measureFolder(target, options.signal ?? new AbortController().signal);
  if (selected.length > 0 && size.files === 0 && failed.isEmpty && (await isEmptyFolder(target))) {
    throw new EngineError('PATH_MISSING');
  }
  return { status: failed.isEmpty ? 'completed' : 'partial', ...size, failed: failed.report() };
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
