import { hostname } from 'node:os';
import path from 'node:path';
import type { LogEntry } from '../../../../protocol/index.ts';
import { linesBackward, type RawLine } from './backward-lines.ts';
import { ForwardLines } from './forward-lines.ts';
import { parseHead } from './line-format.ts';
import type { LogPart, TextLog } from './log-files.ts';
import { idBaseOf, openPart, type OpenPart } from './open-part.ts';
import { BackwardEntries, buildEntry, headOf, type PartContext } from './text-entries.ts';
import type { UnpackSpace } from './unpack-space.ts';

/** Reads entries from an open part of a text log: all from the end, or one by its offset. */

export interface ReadablePart {
  context: PartContext;
  complete: boolean;
  open: OpenPart;
}

const PROBE_BYTES = 64 * 1024;
const RECORD_BYTES_MAX = 1024 * 1024;

export async function readPart(
  log: TextLog,
  part: LogPart,
  signal: AbortSignal,
  space: UnpackSpace,
): Promise<ReadablePart> {
  const open = await openPart(part, signal, space);
  try {
    const context: PartContext = {
      idBase: await idBaseOf(open),
      writtenAt: Math.floor(part.writtenAt),
      source: path.posix.basename(log.name).replace(/\.log$/, ''),
      computer: hostname(),
      timed: await hasTimes(open, part.writtenAt),
    };
    return { context, complete: open.complete, open };
  } catch (error) {
    await open.close();
    throw error;
  }
}

async function hasTimes(open: OpenPart, writtenAt: number): Promise<boolean> {
  const lines = new ForwardLines(0);
  while (lines.position < PROBE_BYTES) {
    const some = await lines.read(open.handle);
    const found = (some ?? lines.end()).some((line) => parseHead(line.text, writtenAt) !== undefined);
    if (found) return true;
    if (some === undefined) return false;
  }
  return false;
}

export async function* entriesBackward(
  part: ReadablePart,
  signal: AbortSignal,
): AsyncGenerator<LogEntry[], void> {
  const entries = new BackwardEntries(part.context);
  for await (const lines of linesBackward(part.open.handle, part.open.size, signal)) {
    const some = entries.add(lines);
    if (some.length > 0) yield some;
  }
  if (!signal.aborted) yield entries.end();
}

/** The entry whose first line starts at `offset`; `undefined` where no entry starts there. */
export async function entryAt(part: ReadablePart, offset: number): Promise<LogEntry | undefined> {
  const { handle, size } = part.open;
  if (offset >= size || !(await startsLine(part.open, offset))) return undefined;
  const lines = new ForwardLines(offset);
  let first: RawLine | undefined;
  const continued: RawLine[] = [];
  let nextAt: number | undefined;
  while (nextAt === undefined && lines.position - offset < RECORD_BYTES_MAX) {
    const some = await lines.read(handle);
    for (const line of some ?? lines.end()) {
      if (first === undefined) {
        first = line;
        continue;
      }
      const next = headOf(line, part.context);
      if (next !== undefined) {
        nextAt = next.at;
        break;
      }
      continued.push(line);
    }
    if (some === undefined) break;
  }
  // Of a line that is longer than the part that was read, only the beginning is kept.
  first ??= lines.end()[0];
  if (first === undefined) return undefined;
  const head = headOf(first, part.context);
  if (head !== undefined) return buildEntry(first, head, continued, part.context);
  // Only the first line of a file may start an entry without a time.
  if (offset !== 0) return undefined;
  return buildEntry(
    first,
    { at: nextAt ?? part.context.writtenAt, message: first.text },
    continued,
    part.context,
  );
}

async function startsLine(open: OpenPart, offset: number): Promise<boolean> {
  if (offset === 0) return true;
  const before = Buffer.alloc(1);
  const { bytesRead } = await open.handle.read(before, 0, 1, offset - 1);
  return bytesRead === 1 && before[0] === 10;
}
