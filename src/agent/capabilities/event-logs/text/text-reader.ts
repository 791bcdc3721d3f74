import path from 'node:path';
import type { LogEntry, LogMetadata, LogQuery } from '../../../../protocol/index.ts';
import { recordNotFound } from '../../../core/agent-error.ts';
import { entryMatcher, instantMs } from '../conditions.ts';
import { findLog } from '../find-log.ts';
import { pageOf } from '../page.ts';
import { sayAtEnd, sayOmitted, type EventLogReader } from '../reader.ts';
import { ScanReport } from '../scan-report.ts';
import { findTextLogs, type LogPart, type TextLog } from './log-files.ts';
import { splitRecordId, type PartTools } from './open-part.ts';
import { searchedText } from './text-entries.ts';
import { COUNT_BYTES_MAX, describeTextLog } from './text-metadata.ts';
import { entriesBackward, entryAt, readPart, type ReadablePart } from './text-part.ts';
import { blockSearch } from './text-search.ts';
import { followText } from './text-tail.ts';
import { DISORDER_MS, timeWindow, type TimeSpan } from './time-window.ts';
import { temporarySpace, type UnpackSpace } from './unpack-space.ts';
import { unpack, type Unpack } from './unpackers.ts';

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

/** Reads logs from the text files below a folder: those of applications, and of the system where it has no journal. */
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
        // A log that was removed meanwhile must not hide the others.
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
  const share = Math.floor((100 * (range.to - position)) / (range.to - range.from));
  report.missed(`Time was up after ${share} % of ${name} (${megabytes(range.to - position)}) had been read.`);
}

const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`;
