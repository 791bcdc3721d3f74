import path from 'node:path';
import type { LogEntry, LogMetadata, LogQuery } from '../../../../protocol/index.ts';
import { recordNotFound } from '../../../core/agent-error.ts';
import {
  entryMatcher,
  instantMs,
  sayAtEnd,
  sayOmitted,
  type EventLogReader,
  findLog,
  ScanReport,
  pageOf,
} from '../log-reader.ts';
import {
  findTextLogs,
  type LogPart,
  type TextLog,
  unpack,
  type Unpack,
  splitRecordId,
  type PartTools,
} from './log-files.ts';
import { searchedText, entriesBackward, entryAt, readPart, type ReadablePart } from './text-part.ts';
import { COUNT_BYTES_MAX, describeTextLog } from './text-metadata.ts';
import { followText } from './text-tail.ts';
import { temporarySpace, type UnpackSpace } from './unpack-space.ts';
import { type TextEncoding, unitOf, type ByteRange, ForwardLines } from './backward-lines.ts';
import { parseHead } from './line-format.ts';

const LISTED_MAX = 500;

export interface TextReaderOptions {
  root?: string;
  pollMs?: number;
  /** The space in which compressed parts are unpacked. */
  unpackSpace?: UnpackSpace;
  /** For tests of machines without some of the programs. */
  unpack?: Unpack;
  /** Whether the machine has a journal as well. */
  besideJournal?: boolean;
}

/** Reads logs from the text files below a folder: those of applications, and of the system if it has no journal. */
export function textReader(options: TextReaderOptions = {}): EventLogReader {
  const root = options.root ?? '/var/log';
  const tools: PartTools = {
    space: options.unpackSpace ?? temporarySpace(),
    unpack: options.unpack ?? unpack,
  };
  const describe = (log: TextLog, bytes: { bytes: number }, signal: AbortSignal) =>
    describeTextLog(log, { budget: bytes, besideJournal: options.besideJournal ?? false }, signal, tools);
  const logNamed = async (name: string) => findLog((await findTextLogs(root)).logs, name);
  return {
    async list(signal) {
      const budget = { bytes: COUNT_BYTES_MAX };
      const described: LogMetadata[] = [];
      const { logs, unsearched } = await findTextLogs(root);
      for (const log of logs.slice(0, LISTED_MAX)) {
        // A log that was removed in the meantime must not hide the others.
        const metadata = await describe(log, budget, signal).catch(() => undefined);
        if (metadata !== undefined) described.push(metadata);
      }
      sayOmitted(described, logs.length - LISTED_MAX);
      if (unsearched === 0) return described;
      const remark = `${unsearched} files and folders were not looked at: there are too many, or they are too deep.`;
      return sayAtEnd(described, remark);
    },
    async get(name, signal) {
      return describe(await logNamed(name), { bytes: COUNT_BYTES_MAX }, signal);
    },
    async *query(query, signal) {
      const log = await logNamed(query.name);
      const report = new ScanReport();
      const matches = entryMatcher(query, searchedText);
      return yield* pageOf(newestFirst({ log, query, report, tools }, signal), query, signal, {
        report,
        matches,
      });
    },
    async record(name, recordId, signal) {
      const log = await logNamed(name);
      const { idBase, offset } = splitRecordId(recordId);
      let failure: unknown;
      for (const file of log.parts) {
        const part = await readPart(log, file, signal, tools).catch((error: unknown) => {
          failure ??= error;
        });
        if (part === undefined) continue;
        try {
          const entry = part.context.idBase === idBase ? await entryAt(part, offset) : undefined;
          if (entry !== undefined) return entry;
        } finally {
          await part.open.close();
        }
      }
      // The record may be in a part that cannot be read.
      if (failure !== undefined) throw failure;
      throw recordNotFound(log.name, recordId);
    },
    async *tail(tail, signal) {
      const log = await logNamed(tail.name);
      const matches = entryMatcher(tail, searchedText);
      for await (const entry of followText(log, signal, options.pollMs)) if (matches(entry)) yield entry;
    },
  };
}

interface Scan {
  log: TextLog;
  query: LogQuery;
  report: ScanReport;
  tools: PartTools;
}

async function* newestFirst(
  { log, query, report, tools }: Scan,
  signal: AbortSignal,
): AsyncGenerator<LogEntry[], void> {
  const span: TimeSpan = {
    start: instantMs(query.startTime) ?? -Infinity,
    end: instantMs(query.endTime) ?? Infinity,
  };
  for (const [index, file] of log.parts.entries()) {
    if (signal.aborted) {
      report.missed(`Time was up before ${nameOf(file)} and what is older could be read.`);
      return;
    }
    // No entry of a rotated part is newer than its last write.
    if (index > 0 && file.writtenAt < span.start - DISORDER_MS) continue;
    const part = await readPart(log, file, signal, tools).catch((error: unknown) => {
      // A damaged old part must not hide the others.
      if (index === 0) throw error;
      report.missed(
        `${nameOf(file)} was left out: ${error instanceof Error ? error.message : String(error)}`,
      );
    });
    if (part === undefined) continue;
    try {
      if (!part.complete) report.missed(`${nameOf(file)} could not be unpacked completely.`);
      yield* entriesOf({ part, name: nameOf(file), span, query, report }, signal);
    } finally {
      await part.open.close();
    }
  }
}

const nameOf = (file: LogPart) => path.relative(file.root, file.path);

async function* entriesOf(
  scan: { part: ReadablePart; name: string; span: TimeSpan; query: LogQuery; report: ScanReport },
  signal: AbortSignal,
): AsyncGenerator<LogEntry[], void> {
  const { part, name, span, query, report } = scan;
  const range = await timeWindow(part, span, signal);
  let position = range.to;
  yield* entriesBackward(part, signal, {
    range,
    early: { levels: query.level && new Set(query.level), ...span },
    mayMatch: blockSearch(query.text, part.context.encoding),
    onRead: (reached) => (position = reached),
    onSkipped: (bytes) => (report.skipped += Math.round(bytes / part.bytesPerLine)),
    onRejected: (entries) => (report.skipped += entries),
  });
  if (!signal.aborted || position === range.from) return;
  // Blocks that cannot match were skipped, so the last entry may be far behind.
  const reached = await sampleAt(part, position, range.to);
  if (reached !== undefined) report.lookedBackTo = new Date(reached.at).toISOString();
  const share = Math.floor((100 * (range.to - position)) / (range.to - range.from));
  report.missed(`Time was up after ${share} % of ${name} (${megabytes(range.to - position)}) had been read.`);
}

const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`;

/**
 * Finds the range of a file that may contain the entries of a time span, so that one day of a large file is read
 * quickly.
 */

interface TimeSpan {
  /** Milliseconds since 1970, or infinite. */
  start: number;
  end: number;
}

/**
 * The clock can be set back and writers race, so a file is only nearly ordered. This much around the span is read too.
 */
const DISORDER_MS = 3_600_000;
/** Smaller ranges are read and not divided further. */
const RANGE_MIN = 1024 * 1024;
const SAMPLES = 24;
const SAMPLE_BYTES = 64 * 1024;

/**
 * Bisects the file by the times of some of its lines. A range is skipped only if all samples beyond it lie outside the
 * span, so an hour with the wrong date does not hide the entries around it.
 */
async function timeWindow(
  part: ReadablePart,
  { start, end }: TimeSpan,
  signal: AbortSignal,
): Promise<ByteRange> {
  const { size } = part.open;
  const window = { from: 0, to: size };
  if (!part.context.timed || size <= RANGE_MIN) return window;
  if (end !== Infinity) window.to = await upperBound(part, end + DISORDER_MS, signal);
  if (start !== -Infinity) window.from = await lowerBound(part, start - DISORDER_MS, window.to, signal);
  return window;
}

async function upperBound(part: ReadablePart, limit: number, signal: AbortSignal): Promise<number> {
  let low = 0;
  let high = part.open.size;
  while (high - low > RANGE_MIN && !signal.aborted) {
    const before = { low, high };
    for (const position of positionsIn(low, high).toReversed()) {
      const sample = await sampleAt(part, position, high);
      if (sample === undefined || sample.at <= limit) {
        low = position;
        break;
      }
      high = sample.offset;
    }
    if (low === before.low && high === before.high) break;
  }
  return high;
}

async function lowerBound(
  part: ReadablePart,
  limit: number,
  to: number,
  signal: AbortSignal,
): Promise<number> {
  let low = 0;
  let high = to;
  while (high - low > RANGE_MIN && !signal.aborted) {
    const before = { low, high };
    for (const position of positionsIn(low, high)) {
      const sample = await sampleAt(part, position, high);
      if (sample === undefined || sample.at >= limit) {
        high = position;
        break;
      }
      low = sample.offset;
    }
    if (low === before.low && high === before.high) break;
  }
  return low;
}

function positionsIn(low: number, high: number): number[] {
  const step = (high - low) / (SAMPLES + 1);
  return Array.from({ length: SAMPLES }, (_, index) => Math.floor(low + step * (index + 1)));
}

/** The first line with a time behind a position; `undefined` if none is near. */
async function sampleAt(
  { open, context }: ReadablePart,
  position: number,
  before: number,
): Promise<{ offset: number; at: number } | undefined> {
  const start = position - (position % unitOf(context.encoding));
  const lines = new ForwardLines(start, context.encoding);
  let isFirst = true;
  while (lines.position - start < SAMPLE_BYTES) {
    const some = await lines.read(open.handle);
    if (some === undefined) return undefined;
    for (const line of some) {
      if (line.offset >= before) return undefined;
      // The position is within the first line.
      const head = isFirst ? undefined : parseHead(line.text, context.hints);
      isFirst = false;
      if (head !== undefined) return { offset: line.offset, at: head.at };
    }
  }
  return undefined;
}

/** Decides from the bytes of a block whether it may contain a text, ten times faster than decoding its lines. */

/** Characters that have the same bytes in every encoding, and that no program escapes in JSON. */
const PLAIN_RUN = /[\w .:;,@#$%()*+!?=~^|`{}[\]-]+/g;
const RUN_MIN = 2;

/** The text may be stored as other bytes: with terminal colours or JSON escapes in it. */
const DISGUISES = ['\x1b', '#033[', String.raw`\u`].map((text) => Buffer.from(text));
/** Characters whose lower case contains an ASCII letter. */
const UPPER_CASES: readonly (readonly [letter: string, upper: Buffer])[] = [
  ['k', Buffer.from('\u212a')],
  ['i', Buffer.from('\u0130')],
];

/**
 * Returns a function that is true for each block with a line whose message may contain the text; `undefined` if the
 * bytes of a text cannot be known. It never misses a block.
 */
function blockSearch(
  text: string | undefined,
  encoding: TextEncoding,
): ((block: Buffer) => boolean) | undefined {
  if (text === undefined || encoding !== 'bytes') return undefined;
  const [run = ''] = (text.match(PLAIN_RUN) ?? []).toSorted((a, b) => b.length - a.length);
  if (run.length < RUN_MIN) return undefined;
  const isIn = caselessSearch(run);
  const upper = UPPER_CASES.filter(([letter]) => run.toLowerCase().includes(letter)).map(
    ([, bytes]) => bytes,
  );
  const others = [...DISGUISES, ...upper];
  return (block) => isIn(block) || others.some((other) => block.includes(other));
}

/** Horspool's search, which skips up to the length of the text. It ignores case. */
function caselessSearch(text: string): (block: Buffer) => boolean {
  const lower = Buffer.from(text.toLowerCase(), 'latin1');
  const upper = Buffer.from(text.toUpperCase(), 'latin1');
  const last = lower.length - 1;
  const steps = new Uint16Array(256).fill(lower.length);
  for (let at = 0; at < last; at += 1) {
    steps[lower[at] ?? 0] = last - at;
    steps[upper[at] ?? 0] = last - at;
  }
  return (block) => {
    for (let end = last; end < block.length; end += steps[block[end] ?? 0] ?? 1) {
      let at = last;
      let position = end;
      while (at >= 0 && (block[position] === lower[at] || block[position] === upper[at])) {
        at -= 1;
        position -= 1;
      }
      if (at < 0) return true;
    }
    return false;
  };
}
