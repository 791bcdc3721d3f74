import { hostname } from 'node:os';
import { z } from 'zod';
import { clock } from '../../../clock.ts';
import type { LogEntry, LogMetadata, LogQuery, LogConditions, LogLevel } from '../../../protocol/index.ts';
import { recordNotFound } from '../../core/agent-error.ts';
import { streamLines } from '../../os/child-process.ts';
import {
  entryMatcher,
  instantMs,
  type EventLogReader,
  findLog,
  ScanReport,
  pageOf,
  recordTime,
  cut,
  numberOf,
  timedRecordId,
} from './log-reader.ts';

/** `log show` prints the oldest entry first, so the matches of a span are reversed in memory: at most this many. */
const SPAN_ENTRIES_MAX = 20_000;
const REACH_BACK_MS = 7 * 86_400_000;

/** Reads the unified log of macOS with `log show` and `log stream`. */
export function macosReader(command = '/usr/bin/log'): EventLogReader {
  const computer = hostname();

  async function* entries(args: readonly string[], signal: AbortSignal): AsyncGenerator<LogEntry, void> {
    for await (const line of streamLines(command, args, { signal })) {
      const entry = parseUnifiedLine(line, computer);
      if (entry !== undefined) yield entry;
    }
  }

  async function* newestFirst(
    log: UnifiedLog,
    query: LogQuery,
    signal: AbortSignal,
    report: ScanReport,
  ): AsyncGenerator<LogEntry[], void> {
    const end = instantMs(query.endTime) ?? clock.now();
    const start = instantMs(query.startTime) ?? end - REACH_BACK_MS;
    const matches = entryMatcher(query);
    for (const { from, to } of spansBack(end, start)) {
      const found: LogEntry[] = [];
      for await (const entry of entries(showArguments(log, query, from, to), signal)) {
        const at = Date.parse(entry.timeCreated);
        const inSpan = at >= from && (at < to || (to === end && at <= to));
        if (!inSpan || !matches(entry)) continue;
        found.push(entry);
        if (found.length > SPAN_ENTRIES_MAX) {
          found.shift();
          report.missed(
            `Only the newest ${SPAN_ENTRIES_MAX} entries from ${isoTime(from)} to ${isoTime(to)} were read.`,
          );
        }
      }
      if (signal.aborted) return;
      yield found.reverse();
    }
    // Without a start time, this reader decides how far back it reads.
    if (query.startTime === undefined) {
      report.missed(`Only entries since ${isoTime(start)} were read. A start time reads further back.`);
    }
  }

  return {
    async list() {
      return UNIFIED_LOGS.map(describe);
    },
    async get(name) {
      return describe(findLog(UNIFIED_LOGS, name));
    },
    async *query(query, signal) {
      const log = findLog(UNIFIED_LOGS, query.name);
      const report = new ScanReport();
      return yield* pageOf(newestFirst(log, query, signal, report), query, signal, { report });
    },
    async record(name, recordId, signal) {
      const log = findLog(UNIFIED_LOGS, name);
      const at = recordTime(recordId);
      for await (const entry of entries(showArguments(log, {}, at, at), signal)) {
        if (entry.recordId === recordId) return entry;
      }
      throw recordNotFound(log.name, recordId);
    },
    async *tail(tail, signal) {
      const predicate = predicateOf(findLog(UNIFIED_LOGS, tail.name), tail);
      const args = ['stream', '--style', 'ndjson', '--level', 'debug'];
      if (predicate !== undefined) args.push('--predicate', predicate);
      const matches = entryMatcher(tail);
      for await (const entry of entries(args, signal)) if (matches(entry)) yield entry;
    },
  };
}

const isoTime = (at: number) => new Date(at).toISOString();

function showArguments(log: UnifiedLog, conditions: Partial<LogQuery>, from: number, to: number): string[] {
  const predicate = predicateOf(log, conditions);
  const args = ['show', '--style', 'ndjson', '--info', '--debug'];
  args.push('--start', `@${Math.floor(from / 1000)}`, '--end', `@${Math.floor(to / 1000) + 1}`);
  if (predicate !== undefined) args.push('--predicate', predicate);
  return args;
}

function describe(log: UnifiedLog): LogMetadata {
  return {
    name: log.name,
    displayName: log.displayName,
    recordCount: 0,
    maxSize: 0,
    retentionDays: 0,
    lastWriteTime: '',
    source: 'macos',
    note: 'The unified log does not report how many entries it has.',
  };
}

/** Converts lines of `log show --style ndjson` to entries, and conditions to a predicate. */

interface UnifiedLog {
  name: string;
  displayName: string;
  predicate: string | undefined;
}

export const UNIFIED_LOGS: readonly UnifiedLog[] = [
  { name: 'System', displayName: 'Unified log', predicate: undefined },
  { name: 'Faults', displayName: 'Faults', predicate: 'messageType == fault' },
  {
    name: 'Errors',
    displayName: 'Errors and faults',
    predicate: '(messageType == error OR messageType == fault)',
  },
  { name: 'Kernel', displayName: 'Kernel', predicate: 'process == "kernel"' },
  {
    name: 'Auth',
    displayName: 'Sign-ins and rights',
    predicate: '(process == "loginwindow" OR process == "sudo" OR process == "authd" OR process == "sshd")',
  },
  {
    name: 'Install',
    displayName: 'Installs and updates',
    predicate: '(process == "installd" OR process == "softwareupdated" OR process == "installer")',
  },
];

const LEVEL_OF_TYPE: Readonly<Record<string, LogLevel>> = {
  Fault: 'critical',
  Error: 'error',
  Default: 'information',
  Info: 'information',
  Debug: 'verbose',
};

const TYPES_OF_LEVEL: Readonly<Record<LogLevel, readonly string[]>> = {
  critical: ['fault'],
  error: ['error'],
  warning: [],
  information: ['default', 'info'],
  verbose: ['debug'],
};

const UnifiedRecord = z.object({
  timestamp: z.string(),
  eventMessage: z.string().nullish(),
  messageType: z.string().nullish(),
  subsystem: z.string().nullish(),
  category: z.string().nullish(),
  processImagePath: z.string().nullish(),
  userID: z.number().nullish(),
  threadID: z.number().nullish(),
});

/** `undefined` for a line that is not an entry, such as the last one, which holds their number. */
export function parseUnifiedLine(line: string, computer: string): LogEntry | undefined {
  let json: unknown;
  try {
    json = JSON.parse(line);
  } catch {
    return undefined;
  }
  const parsed = UnifiedRecord.safeParse(json);
  if (!parsed.success) return undefined;
  const record = parsed.data;
  const microseconds = parseTimestamp(record.timestamp);
  if (microseconds === undefined) return undefined;
  const process = record.processImagePath?.split('/').at(-1);
  const at = Math.floor(microseconds / 1000);
  return {
    recordId: timedRecordId(
      at,
      numberOf(record.timestamp, String(record.threadID), record.eventMessage ?? ''),
    ),
    timeCreated: new Date(at).toISOString(),
    level: LEVEL_OF_TYPE[record.messageType ?? 'Default'] ?? 'information',
    source: nonEmpty(record.subsystem) ?? nonEmpty(process) ?? 'system',
    eventId: 0,
    message: cut(record.eventMessage ?? ''),
    category: record.category ?? '',
    user: record.userID == null ? null : String(record.userID),
    computer,
    raw: cut(line),
  };
}

function nonEmpty(text: string | null | undefined): string | undefined {
  return text == null || text === '' ? undefined : text;
}

/** Converts `2026-01-31 08:00:00.123456+0100` to microseconds since 1970. */
export function parseTimestamp(text: string): number | undefined {
  const found = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)\.(\d{6})([+-]\d\d)(\d\d)$/.exec(text);
  if (found === null) return undefined;
  const seconds = Date.parse(`${found[1]}T${found[2]}${found[4]}:${found[5]}`) / 1000;
  return Number.isNaN(seconds) ? undefined : seconds * 1_000_000 + Number(found[3]);
}

/** A predicate for the conditions that the log can check. Text is escaped, so that it stays within its quotes. */
export function predicateOf(log: UnifiedLog, conditions: LogConditions): string | undefined {
  const terms = log.predicate === undefined ? [] : [log.predicate];
  if (conditions.level !== undefined) {
    const types = conditions.level.flatMap((level) => TYPES_OF_LEVEL[level]);
    // The log has no warnings. Asking for them alone returns nothing, because the entries are checked as well.
    if (types.length > 0) terms.push(`(${types.map((type) => `messageType == ${type}`).join(' OR ')})`);
  }
  if (conditions.text !== undefined) terms.push(`eventMessage CONTAINS[c] ${quoted(conditions.text)}`);
  return terms.length === 0 ? undefined : terms.join(' AND ');
}

export function quoted(text: string): string {
  return `"${text.replace(/[\\"]/g, '\\$&').replace(/\r?\n/g, '\\n')}"`;
}

/** The spans to read, from the newest back. The first ones are short, because most queries are about the last minutes. */
export function* spansBack(end: number, start: number): Generator<{ from: number; to: number }> {
  let length = 10 * 60_000;
  let to = end;
  while (to > start) {
    const from = Math.max(start, to - length);
    yield { from, to };
    to = from;
    length = Math.min(length * 2, 6 * 3_600_000);
  }
}
