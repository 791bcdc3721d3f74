import type { Stats } from 'node:fs';
import { lstat, type FileHandle } from 'node:fs/promises';
import { hostname } from 'node:os';
import { clock } from '../../../../clock.ts';
import type { LogEntry } from '../../../../protocol/index.ts';
import { type RawLine, ForwardLines, unitOf } from './backward-lines.ts';
import { type LineHead, parseHead } from './line-format.ts';
import { openLogFile, type LogPart, type TextLog, idBaseOf, startOfContent } from './log-files.ts';
import {
  buildEntry,
  untimedHead,
  type PartContext,
  encodingAt,
  sourceOf,
  LINES_PER_ENTRY,
} from './text-part.ts';

const POLL_MS = 500;

/** Follows the new entries of a text log across rotation and truncation, until it is aborted. */
export async function* followText(
  log: TextLog,
  signal: AbortSignal,
  pollMs = POLL_MS,
): AsyncGenerator<LogEntry, void> {
  const part = log.parts[0];
  if (part === undefined) return;
  let followed = await followEnd(part);
  try {
    while (!signal.aborted) {
      // The mark is compared again after reading, because the file may be rewritten meanwhile.
      const { mark } = followed;
      for await (const entry of newEntries(log, followed)) yield entry;
      if (await isRewritten(followed.handle, mark)) {
        followed = followStart(followed.handle);
        continue;
      }
      followed.mark = await markAt(followed.handle, followed.lines?.position ?? 0);
      // If nothing was written since the last poll, the last entry is complete.
      if (!(await paused(pollMs, signal))) return;
      if (await isRewritten(followed.handle, followed.mark)) {
        followed = followStart(followed.handle);
        continue;
      }
      const next = await replacementOf(part, followed.handle);
      if (next === undefined) continue;
      for await (const entry of newEntries(log, followed)) yield entry;
      await followed.handle.close();
      followed = followStart(next);
    }
  } finally {
    await followed.handle.close();
  }
}

interface Followed {
  handle: FileHandle;
  /** `undefined` if the file is to be read from its start, and has no content that shows how it is stored. */
  lines: ForwardLines | undefined;
  encoding: PartContext['encoding'];
  mark: Mark;
}

/** The last bytes that were read. If the file has others there, it was truncated and written again. */
interface Mark {
  end: number;
  bytes: Buffer;
}

const MARK_BYTES = 256;

async function markAt(handle: FileHandle, end: number): Promise<Mark> {
  const length = Math.min(MARK_BYTES, end);
  const bytes = Buffer.alloc(length);
  if (length > 0) await handle.read(bytes, 0, length, end - length);
  return { end, bytes };
}

async function isRewritten(handle: FileHandle, mark: Mark): Promise<boolean> {
  if ((await handle.stat()).size < mark.end) return true;
  return !(await markAt(handle, mark.end)).bytes.equals(mark.bytes);
}

async function followEnd(part: LogPart): Promise<Followed> {
  const handle = await openLogFile(part);
  try {
    const { size } = await handle.stat();
    const encoding = await encodingAt({ handle }, await startOfContent({ handle, size }));
    const end = size - (size % unitOf(encoding));
    const lines = size === 0 ? undefined : new ForwardLines(end, encoding);
    return { handle, lines, encoding, mark: await markAt(handle, end) };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

function followStart(handle: FileHandle): Followed {
  return { handle, lines: undefined, encoding: 'bytes', mark: { end: 0, bytes: Buffer.alloc(0) } };
}

/** The file that has replaced the open one; `undefined` if none has, or it cannot be read. */
async function replacementOf(part: LogPart, current: FileHandle): Promise<FileHandle | undefined> {
  const named = await lstat(part.path).catch(() => undefined);
  if (named === undefined || isSame(named, await current.stat())) return undefined;
  const handle = await openLogFile(part).catch(() => undefined);
  if (handle === undefined || !isSame(await handle.stat(), await current.stat())) return handle;
  await handle.close();
  return undefined;
}

const isSame = (one: Stats, other: Stats) => one.ino === other.ino && one.dev === other.dev;

async function* newEntries(log: TextLog, followed: Followed): AsyncGenerator<LogEntry, void> {
  const { handle } = followed;
  if (followed.lines === undefined) {
    const { size } = await handle.stat();
    if (size === 0) return;
    followed.encoding = await encodingAt({ handle }, await startOfContent({ handle, size }));
    followed.lines = new ForwardLines(0, followed.encoding);
  }
  let context: PartContext | undefined;
  let first: { line: RawLine; head: LineHead } | undefined;
  let continued: RawLine[] = [];
  for (;;) {
    const lines = await followed.lines.read(handle);
    if (lines === undefined) break;
    context ??= await contextOf(log, followed);
    for (const line of lines) {
      const head = parseHead(line.text, context.hints);
      if (head === undefined && first !== undefined) {
        if (continued.length <= LINES_PER_ENTRY) continued.push(line);
        continue;
      }
      if (first !== undefined) yield buildEntry(first.line, first.head, continued, context);
      continued = [];
      // A line without a time that continues no entry gets the present time.
      first = line.text === '' ? undefined : { line, head: head ?? untimedHead(line, clock.now()) };
    }
  }
  if (first !== undefined && context !== undefined) {
    yield buildEntry(first.line, first.head, continued, context);
  }
}

async function contextOf(log: TextLog, { handle, encoding }: Followed): Promise<PartContext> {
  const { size } = await handle.stat();
  return {
    idBase: await idBaseOf(handle, await startOfContent({ handle, size })),
    hints: { reference: clock.now() },
    source: sourceOf(log),
    computer: hostname(),
    timed: true,
    encoding,
  };
}

async function paused(ms: number, signal: AbortSignal): Promise<boolean> {
  try {
    await clock.sleep(ms, { signal });
    return true;
  } catch {
    return false;
  }
}
