import type { Stats } from 'node:fs';
import { lstat, type FileHandle } from 'node:fs/promises';
import { hostname } from 'node:os';
import path from 'node:path';
import { clock } from '../../../../clock.ts';
import type { LogEntry } from '../../../../protocol/index.ts';
import type { RawLine } from './backward-lines.ts';
import { ForwardLines } from './forward-lines.ts';
import { parseHead, type LineHead } from './line-format.ts';
import { openLogFile, type LogPart, type TextLog } from './log-files.ts';
import { idBaseOf } from './open-part.ts';
import { buildEntry, type PartContext } from './text-entries.ts';

const POLL_MS = 500;

/** Follows the new entries of a text log across rotation and truncation, until it is aborted. */
export async function* followText(
  log: TextLog,
  signal: AbortSignal,
  pollMs = POLL_MS,
): AsyncGenerator<LogEntry, void> {
  const part = log.parts[0];
  if (part === undefined) return;
  let followed = await follow(part);
  try {
    while (!signal.aborted) {
      for await (const entry of newEntries(log, followed)) yield entry;
      // If nothing was written since the last poll, the last entry is complete.
      if (!(await paused(pollMs, signal))) return;
      if ((await followed.handle.stat()).size < followed.lines.position) {
        // The file was truncated in place, so it is read from its start.
        followed.lines = new ForwardLines(0);
        continue;
      }
      const next = await replacementOf(part, followed.handle);
      if (next === undefined) continue;
      for await (const entry of newEntries(log, followed)) yield entry;
      await followed.handle.close();
      followed = { handle: next, lines: new ForwardLines(0) };
    }
  } finally {
    await followed.handle.close();
  }
}

interface Followed {
  handle: FileHandle;
  lines: ForwardLines;
}

async function follow(part: LogPart): Promise<Followed> {
  const handle = await openLogFile(part);
  return { handle, lines: new ForwardLines((await handle.stat()).size) };
}

/** The file that has replaced the open one; `undefined` where none has, or it cannot be read. */
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
  let context: PartContext | undefined;
  let first: { line: RawLine; head: LineHead } | undefined;
  let continued: RawLine[] = [];
  for (;;) {
    const lines = await followed.lines.read(followed.handle);
    if (lines === undefined) break;
    context ??= await contextOf(log, followed);
    for (const line of lines) {
      const head = parseHead(line.text, clock.now());
      if (head === undefined && first !== undefined) {
        if (continued.length < 500) continued.push(line);
        continue;
      }
      if (first !== undefined) yield buildEntry(first.line, first.head, continued, context);
      continued = [];
      // A line without a time that continues no entry gets the present time.
      first = line.text === '' ? undefined : { line, head: head ?? { at: clock.now(), message: line.text } };
    }
  }
  if (first !== undefined && context !== undefined) {
    yield buildEntry(first.line, first.head, continued, context);
  }
}

async function contextOf(log: TextLog, followed: Followed): Promise<PartContext> {
  const part = { handle: followed.handle, size: 0, complete: true, close: () => followed.handle.close() };
  return {
    idBase: await idBaseOf(part),
    writtenAt: clock.now(),
    source: path.posix.basename(log.name).replace(/\.log$/, ''),
    computer: hostname(),
    timed: true,
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
