import { hostname } from 'node:os';
import { clock } from '../../../../clock.ts';
import type { LogEntry, LogMetadata, LogQuery } from '../../../../protocol/index.ts';
import { recordNotFound } from '../../../core/agent-error.ts';
import { streamLines } from '../../../os/processes/child-process.ts';
import { entryMatcher, instantMs } from '../conditions.ts';
import { findLog } from '../find-log.ts';
import { pageOf } from '../page.ts';
import type { EventLogReader } from '../reader.ts';
import { ScanReport } from '../scan-report.ts';
import { recordTime } from '../record-id.ts';
import { parseUnifiedLine, predicateOf, spansBack, UNIFIED_LOGS, type UnifiedLog } from './unified-log.ts';

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
