import { hostname } from 'node:os';
import path from 'node:path';
import type { LogEntry, LogLevel } from '../../../../protocol/index.ts';
import { cut } from '../log-reader.ts';
import {
  linesBackward,
  type BackwardOptions,
  type ByteRange,
  type RawLine,
  ForwardLines,
  encodingOf,
  unitOf,
  type TextEncoding,
} from './backward-lines.ts';
import { dayFirstIn, type DateHints } from './line-dates.ts';
import { parseHead, plainLine, type LineHead } from './line-format.ts';
import {
  type LogPart,
  type TextLog,
  idBaseOf,
  openPart,
  startOfContent,
  type OpenPart,
  type PartTools,
} from './log-files.ts';
import { levelOfText, mayBeStructured, structuredLine } from './structured-line.ts';

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
  /** Called with the number of entries that the early conditions have excluded. */
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

/** The entry whose first line starts at `offset`; `undefined` if no entry starts there. */
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
  // Only the beginning of a line is kept that is longer than the part that was read.
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

/** Groups lines into entries: a line with a time, and the lines without one after it. */

/** An entry with more lines says so. */
export const LINES_PER_ENTRY = 500;
const CHARS_PER_ENTRY = 65_536;

export interface PartContext {
  /** Record ids are this number plus the offset of the entry's first line. */
  idBase: number;
  /** Entries without a time get the time at which the file was last written. */
  hints: DateHints;
  source: string;
  computer: string;
  /** False if no line of the file has a time. Then each line is an entry. */
  timed: boolean;
  encoding: TextEncoding;
}

function headOf(line: RawLine, part: PartContext): LineHead | undefined {
  return part.timed ? parseHead(line.text, part.hints) : untimedHead(line, part.hints.reference);
}

/** The header of a line without a time. */
export function untimedHead(line: RawLine, at: number): LineHead {
  const text = plainLine(line.text);
  const fields = text.startsWith('{') ? structuredLine(text, { reference: at }) : undefined;
  return { message: text, ...fields, at };
}

/** The lines that continue an entry, as many of them as are shown. */
function textBehind(first: RawLine, continued: readonly RawLine[], change: (line: string) => string): string {
  let text = '';
  let length = first.text.length;
  for (const line of continued.slice(0, LINES_PER_ENTRY)) {
    if (length > CHARS_PER_ENTRY) break;
    text += `\n${change(line.text)}`;
    length += line.text.length + 1;
  }
  // Their number is unknown if the file is read from its end.
  return continued.length > LINES_PER_ENTRY ? `${text}\n[more lines]` : text;
}

function wholeMessage(first: RawLine, head: LineHead, continued: readonly RawLine[]): string {
  return cut((head.message + textBehind(first, continued, plainLine)).trimEnd());
}

/** Builds an entry from its first line and the lines that continue it, in their order in the file. */
export function buildEntry(
  first: RawLine,
  head: LineHead,
  continued: readonly RawLine[],
  part: PartContext,
): LogEntry {
  const message = wholeMessage(first, head, continued);
  const raw = first.text + textBehind(first, continued, (line) => line);
  return {
    recordId: part.idBase + first.offset,
    timeCreated: new Date(head.at).toISOString(),
    level: head.level ?? levelOfText(message),
    source: head.source ?? part.source,
    eventId: 0,
    message,
    category: '',
    user: null,
    computer: head.computer ?? part.computer,
    raw: cut(raw.trimEnd()),
  };
}

const NONE: readonly RawLine[] = [];

function levelOf(first: RawLine, head: LineHead, continued: readonly RawLine[]): LogLevel {
  return head.level ?? levelOfText(wholeMessage(first, head, continued));
}

/** The text that is searched: in a structured entry, the message only. */
export function searchedText({ message, raw }: LogEntry): string {
  return raw !== undefined && mayBeStructured(raw) ? `${message}\n${raw}` : message;
}

/** Conditions that are checked before an entry is built, which takes as long as reading its lines. */
interface EarlyConditions {
  levels?: ReadonlySet<LogLevel> | undefined;
  start?: number;
  end?: number;
}

/** Converts lines to entries, both from the last to the first. */
class BackwardEntries {
  readonly #part: PartContext;
  readonly #early: Required<EarlyConditions>;
  #waiting: RawLine[] = [];
  #newestAt: number | undefined;

  #rejected = 0;

  constructor(part: PartContext, { levels, start = -Infinity, end = Infinity }: EarlyConditions = {}) {
    this.#part = part;
    this.#early = { levels, start, end };
  }

  /** How many entries were not built, because they do not meet the early conditions. */
  get rejected(): number {
    return this.#rejected;
  }

  add(lines: readonly RawLine[]): LogEntry[] {
    const entries: LogEntry[] = [];
    for (const line of lines) {
      if (!this.#part.timed && line.text === '') continue;
      const head = headOf(line, this.#part);
      if (head === undefined) {
        this.#waiting.push(line);
        // Only the lines next to the first line are kept in the entry.
        if (this.#waiting.length > 2 * LINES_PER_ENTRY) {
          this.#waiting = this.#waiting.slice(-LINES_PER_ENTRY - 1);
        }
        continue;
      }
      const entry = this.#entry(line, head);
      if (entry !== undefined) entries.push(entry);
    }
    return entries;
  }

  /** Drops the lines that wait for the first line of their entry. */
  forget(): void {
    this.#waiting = [];
  }

  /** The lines before the first one with a time become an entry with the time of the next one. */
  end(): LogEntry[] {
    const first = this.#waiting.pop();
    if (first === undefined) return [];
    const entry = this.#entry(first, untimedHead(first, this.#newestAt ?? this.#part.hints.reference));
    return entry === undefined || entry.message === '' ? [] : [entry];
  }

  #entry(first: RawLine, head: LineHead): LogEntry | undefined {
    const continued = this.#waiting.length === 0 ? NONE : this.#waiting.reverse();
    if (continued !== NONE) this.#waiting = [];
    this.#newestAt = head.at;
    const { levels, start, end } = this.#early;
    if (
      head.at < start ||
      head.at > end ||
      (levels !== undefined && !levels.has(levelOf(first, head, continued)))
    ) {
      this.#rejected += 1;
      return undefined;
    }
    return buildEntry(first, head, continued, this.#part);
  }
}
