import { open, stat, type FileHandle } from 'node:fs/promises';
import { hostname } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { LogEntry } from '../../../protocol/index.ts';
import type { RawLine } from './backward-lines.ts';
import { ForwardLines } from './forward-lines.ts';
import { parseHead, type LineHead } from './line-format.ts';
import type { TextLog } from './log-files.ts';
import { idBaseOf } from './open-part.ts';
import { buildEntry, type PartContext } from './text-entries.ts';

const POLL_MS = 500;

/** New entries of a text log as they are written, across rotation and truncation, until aborted. */
export async function* followText(
  log: TextLog,
  signal: AbortSignal,
  pollMs = POLL_MS,
): AsyncGenerator<LogEntry, void> {
  const file = log.parts[0]?.path;
  if (file === undefined) return;
  let followed = await follow(file, 'end');
  try {
    while (!signal.aborted) {
      for await (const entry of newEntries(log, followed)) yield entry;
      // A poll without news means that the last entry is complete.
      if (!(await paused(pollMs, signal))) return;
      const info = await stat(file).catch(() => undefined);
      const { ino, size } = await followed.handle.stat();
      if (size < followed.lines.position) {
        await followed.handle.close();
        followed = await follow(file, 'start');
      } else if (info !== undefined && info.ino !== ino) {
        for await (const entry of newEntries(log, followed)) yield entry;
        await followed.handle.close();
        followed = await follow(file, 'start');
      }
    }
  } finally {
    await followed.handle.close();
  }
}

interface Followed {
  handle: FileHandle;
  lines: ForwardLines;
}

async function follow(file: string, from: 'start' | 'end'): Promise<Followed> {
  const handle = await open(file, 'r');
  const offset = from === 'start' ? 0 : (await handle.stat()).size;
  return { handle, lines: new ForwardLines(offset) };
}

async function* newEntries(log: TextLog, followed: Followed): AsyncGenerator<LogEntry, void> {
  let context: PartContext | undefined;
  let first: { line: RawLine; head: LineHead } | undefined;
  let continued: RawLine[] = [];
  for (;;) {
    const lines = await followed.lines.read(followed.handle);
    if (lines === undefined) break;
    context ??= await contextOf(log, followed);
    for (const line of lines) {
      const head = parseHead(line.text, Date.now());
      if (head === undefined && first !== undefined) {
        if (continued.length < 500) continued.push(line);
        continue;
      }
      if (first !== undefined) yield buildEntry(first.line, first.head, continued, context);
      continued = [];
      // A line without a time, and nothing to continue: it was written now.
      first = line.text === '' ? undefined : { line, head: head ?? { at: Date.now(), message: line.text } };
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
    writtenAt: Date.now(),
    source: path.posix.basename(log.name).replace(/\.log$/, ''),
    computer: hostname(),
    timed: true,
  };
}

async function paused(ms: number, signal: AbortSignal): Promise<boolean> {
  try {
    await delay(ms, undefined, { signal });
    return true;
  } catch {
    return false;
  }
}
