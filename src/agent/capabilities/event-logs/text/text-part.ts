import { hostname } from 'node:os';
import path from 'node:path';
import type { LogEntry } from '../../../../protocol/index.ts';
import { linesBackward, type BackwardOptions, type ByteRange, type RawLine } from './backward-lines.ts';
import { ForwardLines } from './forward-lines.ts';
import { dayFirstIn } from './line-dates.ts';
import { parseHead } from './line-format.ts';
import type { LogPart, TextLog } from './log-files.ts';
import { idBaseOf, openPart, startOfContent, type OpenPart, type PartTools } from './open-part.ts';
import {
  BackwardEntries,
  buildEntry,
  headOf,
  untimedHead,
  type EarlyConditions,
  type PartContext,
} from './text-entries.ts';
import { encodingOf, unitOf, type TextEncoding } from './text-encoding.ts';

/** Reads entries from an open part of a text log: all of a range from its end, or one by its offset. */

export interface ReadablePart {
  context: PartContext;
  complete: boolean;
  /** The usual length of a line. */
  bytesPerLine: number;
  open: OpenPart;
}

const ENCODING_BYTES = 4096;
const PROBE_BYTES = 64 * 1024;
const RECORD_BYTES_MAX = 1024 * 1024;
const LINE_BYTES_TYPICAL = 100;

export async function readPart(
  log: TextLog,
  part: LogPart,
  signal: AbortSignal,
  tools: PartTools,
): Promise<ReadablePart> {
  const open = await openPart(part, signal, tools);
  try {
    const start = await startOfContent(open);
    const encoding = await encodingAt(open, start);
    const reference = Math.floor(part.writtenAt);
    const found = await probe(open, { start, encoding, reference });
    const context: PartContext = {
      idBase: await idBaseOf(open.handle, start),
      hints: { reference, dayFirst: found.dayFirst },
      source: sourceOf(log),
      computer: hostname(),
      timed: found.timed,
      encoding,
    };
    return { context, complete: open.complete, bytesPerLine: found.bytesPerLine, open };
  } catch (error) {
    await open.close();
    throw error;
  }
}

export function sourceOf(log: TextLog): string {
  return path.posix.basename(log.name).replace(/\.(?:log|out|err|txt)$/, '');
}

export async function encodingAt({ handle }: Pick<OpenPart, 'handle'>, start: number): Promise<TextEncoding> {
  const buffer = Buffer.alloc(ENCODING_BYTES);
  const { bytesRead } = await handle.read(buffer, 0, ENCODING_BYTES, start);
  return encodingOf(buffer.subarray(0, bytesRead));
}

interface Probe {
  timed: boolean;
  dayFirst: boolean | undefined;
  bytesPerLine: number;
}

/** Looks at the first and the last lines of a file. */
async function probe(
  open: OpenPart,
  { start, encoding, reference }: { start: number; encoding: TextEncoding; reference: number },
): Promise<Probe> {
  const found: Probe = { timed: false, dayFirst: undefined, bytesPerLine: LINE_BYTES_TYPICAL };
  const last = Math.max(start, open.size - PROBE_BYTES);
  for (const from of new Set([start, last - (last % unitOf(encoding))])) {
    const lines = new ForwardLines(from, encoding);
    let count = 0;
    while (lines.position - from < PROBE_BYTES) {
      const some = await lines.read(open.handle);
      for (const { text } of some ?? lines.end()) {
        count += 1;
        found.timed ||= parseHead(text, reference) !== undefined;
        found.dayFirst ??= dayFirstIn(text);
      }
      if (some === undefined) break;
    }
    if (count > 0) found.bytesPerLine = Math.max(1, (lines.position - from) / count);
  }
  return found;
}

export interface EntriesOptions extends BackwardOptions {
  range?: ByteRange;
  early?: EarlyConditions;
  /** Called with the number of entries that the early conditions have left out. */
  onRejected?: (entries: number) => void;
}

/** Entries in batches, the newest first. */
export async function* entriesBackward(
  part: ReadablePart,
  signal: AbortSignal,
  { range = { from: 0, to: part.open.size }, early, onRejected, ...options }: EntriesOptions = {},
): AsyncGenerator<LogEntry[], void> {
  const entries = new BackwardEntries(part.context, early);
  const { encoding } = part.context;
  let rejected = 0;
  const batch = (some: LogEntry[]) => {
    onRejected?.(entries.rejected - rejected);
    rejected = entries.rejected;
    return some;
  };
  for await (const lines of linesBackward(part.open.handle, { ...range, encoding }, signal, options)) {
    if (lines === undefined) entries.forget();
    const some = batch(entries.add(lines ?? []));
    if (some.length > 0) yield some;
  }
  if (!signal.aborted) yield batch(entries.end());
}

/** The entry whose first line starts at `offset`; `undefined` where no entry starts there. */
export async function entryAt(part: ReadablePart, offset: number): Promise<LogEntry | undefined> {
  const { handle, size } = part.open;
  if (offset >= size || !(await startsLine(part, offset))) return undefined;
  const lines = new ForwardLines(offset, part.context.encoding);
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
  if (first === undefined || first.offset !== offset) return undefined;
  const head = headOf(first, part.context);
  if (head !== undefined) return buildEntry(first, head, continued, part.context);
  // Only the first line of a file may start an entry without a time.
  if (offset !== (await startOfContent(part.open))) return undefined;
  return buildEntry(
    first,
    untimedHead(first, nextAt ?? part.context.hints.reference),
    continued,
    part.context,
  );
}

async function startsLine({ open, context }: ReadablePart, offset: number): Promise<boolean> {
  if (offset === 0) return true;
  const unit = unitOf(context.encoding);
  if (offset % unit !== 0) return false;
  const before = Buffer.alloc(unit);
  const { bytesRead } = await open.handle.read(before, 0, unit, offset - unit);
  if (bytesRead !== unit) return false;
  if (context.encoding === 'bytes') return before[0] === 10 || before[0] === 0;
  return (context.encoding === 'utf16le' ? before.readUInt16LE() : before.readUInt16BE()) === 10;
}
