import path from 'node:path';
import { once } from 'node:events';
import type { Writable } from 'node:stream';
import { z } from 'zod';
import type { Repository } from '../destination.ts';
import type { Engine } from '../engine.ts';
import { EngineError } from '../engine-error.ts';
import { LineSplitter } from '../process/lines.ts';
import { RetryWatch } from '../process/retry-watch.ts';
import { startEngine } from '../process/start-engine.ts';
import { fullSnapshotId } from './snapshots.ts';
import { BackupInput, BackupObserver, type BackupOptions, type BackupResult } from './backup.ts';

export const StreamInput = BackupInput.pick({ host: true, tags: true }).extend({
  /** The name of the only file of the snapshot. */
  fileName: z
    .string()
    .max(255)
    .refine(
      (name) => path.basename(name) === name && !/^[.-]|[\p{Cc}/\\]/u.test(name),
      'must be the name of a file',
    ),
});
export type StreamInput = z.input<typeof StreamInput>;

export interface StreamSource {
  /** Throwing ends the backup without a snapshot. */
  content: AsyncIterable<Uint8Array>;
  /**
   * Asked when the content has ended, before restic sees the end. Rejecting ends the backup without a snapshot: the
   * exit code of the program that produces the content belongs here.
   */
  confirm?: () => Promise<void>;
  /** Where it is known. Another number of bytes ends the backup without a snapshot. */
  expectedBytes?: number;
}

const LINE_MAX = 1024 * 1024;

/**
 * Makes a snapshot of one stream. restic considers the end of its input a good end, so the input ends only when the
 * source has confirmed it. Where restic then reports another number of bytes than it was given, the snapshot exists and
 * is wrong: the error carries its id, for the one who may remove it.
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
    // Interrupted before the end of its input, restic makes no snapshot.
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

/** Writes the content, and returns its length after the source has confirmed it. */
async function feed(source: StreamSource, input: Writable, hasEnded: AbortSignal): Promise<number> {
  let fed = 0;
  for await (const bytes of source.content) {
    // A program that has ended reads nothing more. Its own failure is reported.
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
