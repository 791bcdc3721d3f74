// Logs are read in place by the tools of the system (journalctl, wevtutil, log), which check as many conditions as
// they can; text files are searched as bytes. A technician assumes that an entry that is not shown does not exist, so
// odd entries are kept, unreadable ones are counted, and every result says where it was cut.
import { createHash } from 'node:crypto';
import type {
  LogEntry,
  LogMetadata,
  LogQuery,
  LogQuerySummary,
  LogTail,
  LogConditions,
  LogLevel,
} from '../../../protocol/index.ts';
import { logNotFound } from '../../core/agent-error.ts';
import type { LiveHandlers } from '../../work/live-runner.ts';

/**
 * Reads the logs of a machine. A name must be that of a listed log, in any case; otherwise the methods throw
 * `LOG_NOT_FOUND`.
 *
 * An aborted `query` ends early with `truncated: true`; the rows that it has returned are valid. An aborted `tail` ends.
 */
export interface EventLogReader {
  list(signal: AbortSignal): Promise<LogMetadata[]>;
  get(name: string, signal: AbortSignal): Promise<LogMetadata>;
  query(query: LogQuery, signal: AbortSignal): AsyncGenerator<LogEntry, LogQuerySummary>;
  record(name: string, recordId: number, signal: AbortSignal): Promise<LogEntry>;
  tail(tail: LogTail, signal: AbortSignal): AsyncGenerator<LogEntry, void>;
}

/** The event log commands, on top of the reader for this machine. */
export function eventLogHandlers(reader: EventLogReader): LiveHandlers {
  return {
    'eventlogs.list': async (_payload, { signal }) => ({ logs: await reader.list(signal) }),
    'eventlogs.get': async ({ name }, { signal }) => ({ log: await reader.get(name, signal) }),
    'eventlogs.record': async ({ name, recordId }, { signal }) => ({
      entry: await reader.record(name, recordId, signal),
    }),
    'eventlogs.query': async (query, { signal, timeUp, row }) => {
      const entries = reader.query(query, AbortSignal.any([signal, timeUp]));
      try {
        for (;;) {
          const next = await entries.next();
          if (next.done === true) return next.value;
          await row(next.value);
        }
      } finally {
        // Closes the reader, also when the rows could not be sent.
        await entries.return({ scanned: 0, truncated: true });
      }
    },
    'eventlogs.tail': async (query, { signal, row }) => {
      for await (const entry of reader.tail(query, signal)) await row(entry);
      return {};
    },
  };
}

/** The level of each severity of syslog (RFC 5424, 6.2.1), from 0, emergency, to 7, debug. */
export const SYSLOG_LEVELS: readonly LogLevel[] = [
  'critical',
  'critical',
  'critical',
  'error',
  'warning',
  'information',
  'information',
  'verbose',
];

/**
 * Ids of entries of logs that have no numbers fitting into JSON: the millisecond, above eleven bits that distinguish
 * the entries within it. They stay below 2^53 until the year 2109; later times, of a wrong clock, start again at zero.
 */
const WITHIN_BITS = 11;
const WITHIN = 2 ** WITHIN_BITS;
const MILLISECONDS = 2 ** (53 - WITHIN_BITS);

/** @param within  a number that entries of the same millisecond do not share */
export function timedRecordId(ms: number, within: number): number {
  return (ms % MILLISECONDS) * WITHIN + (within % WITHIN);
}

/** The millisecond of an entry. */
export function recordTime(recordId: number): number {
  return Math.floor(recordId / WITHIN);
}

/** All times that an id may stand for. */
export function recordTimes(recordId: number): number[] {
  return [recordTime(recordId), recordTime(recordId) + MILLISECONDS];
}

/** A number for entries that have none, derived from their content. */
export function numberOf(...content: readonly string[]): number {
  return createHash('sha256').update(content.join('\0')).digest().readUInt32BE(0);
}

const REMARKS_MAX = 5;
const NOTE_MAX = 2_000;

/** Collects what a query could not read, and why. The reader fills it, and it becomes the note of the result. */
export class ScanReport {
  readonly #remarks = new Set<string>();
  #omitted = 0;
  #isWhole = true;
  /** Records that were skipped without parsing, because their bytes show that they cannot match. */
  skipped = 0;
  /** Records that could not be read. */
  unreadable = 0;
  /** The time of the oldest record so far, as ISO 8601. */
  lookedBackTo: string | undefined;

  /** To be called for each part that is missing from the result. */
  missed(remark: string): void {
    this.#isWhole = false;
    if (this.#remarks.size < REMARKS_MAX) this.#remarks.add(remark);
    else if (!this.#remarks.has(remark)) this.#omitted += 1;
  }

  summary(scanned: number, stopped: boolean, total?: number): LogQuerySummary {
    const truncated = stopped || !this.#isWhole || this.unreadable > 0;
    const { unreadable } = this;
    const unread =
      unreadable === 0 ? [] : [`${unreadable} ${unreadable === 1 ? 'record' : 'records'} could not be read.`];
    const more = this.#omitted === 0 ? [] : [`${this.#omitted} more parts are missing.`];
    const note = cut([...unread, ...this.#remarks, ...more].join(' '), NOTE_MAX);
    return {
      scanned: scanned + this.skipped,
      truncated,
      ...(!truncated && total !== undefined && { total }),
      ...(note !== '' && { note }),
      ...(stopped && this.lookedBackTo !== undefined && { lookedBackTo: this.lookedBackTo }),
    };
  }
}

/** The longest message of an entry, so that each row fits into a frame. */
export const MESSAGE_MAX = 32_768;

export function cut(text: string, max = MESSAGE_MAX): string {
  if (text.length <= max) return text;
  return `${text.slice(0, max)}… [${text.length - max} more characters]`;
}

/** Adds a note at the end of a list that was cut. */
export function sayOmitted(logs: LogMetadata[], omitted: number): LogMetadata[] {
  if (omitted <= 0) return logs;
  return sayAtEnd(logs, `The list ends here; ${omitted} more logs are not listed and can be read by name.`);
}

/** In a list of logs, only the logs themselves can carry a note. */
export function sayAtEnd(logs: LogMetadata[], remark: string): LogMetadata[] {
  const last = logs.at(-1);
  if (last !== undefined) last.note = last.note === undefined ? remark : `${last.note} ${remark}`;
  return logs;
}

/**
 * One predicate for all conditions of a query. Readers may check some of them earlier if that is cheaper.
 *
 * @param searched  returns the text that is searched
 */
export function entryMatcher(
  conditions: LogConditions,
  searched: (entry: LogEntry) => string = ({ message }) => message,
): (entry: LogEntry) => boolean {
  const levels = conditions.level === undefined ? undefined : new Set(conditions.level);
  const source = conditions.source?.toLowerCase();
  const text = conditions.text?.toLowerCase();
  const { eventId } = conditions;
  const start = instantMs(conditions.startTime) ?? -Infinity;
  const end = instantMs(conditions.endTime) ?? Infinity;
  const timed = start !== -Infinity || end !== Infinity;
  return (entry) => {
    if (levels !== undefined && !levels.has(entry.level)) return false;
    if (eventId !== undefined && entry.eventId !== eventId) return false;
    if (source !== undefined && entry.source.toLowerCase() !== source) return false;
    if (timed) {
      const at = Date.parse(entry.timeCreated);
      if (at < start || at > end) return false;
    }
    return text === undefined || searched(entry).toLowerCase().includes(text);
  };
}

export function instantMs(instant: string | undefined): number | undefined {
  return instant === undefined ? undefined : Date.parse(instant);
}

/** Finds a log in the list, ignoring case. A requested name is only ever a key into this list. */
export function findLog<T extends { name: string }>(logs: readonly T[], name: string): T {
  const wanted = name.toLowerCase();
  const found =
    logs.find((log) => log.name === name) ?? logs.find((log) => log.name.toLowerCase() === wanted);
  if (found === undefined) throw logNotFound(name);
  return found;
}

interface PageOptions {
  /** Position in the source while it is read. */
  report?: ScanReport;
  matches?: (entry: LogEntry) => boolean;
}

/** Selects one page from batches of entries, newest first. The source is closed as soon as the page is full. */
export async function* pageOf(
  source: AsyncGenerator<readonly LogEntry[], void>,
  query: LogQuery,
  signal: AbortSignal,
  { report = new ScanReport(), matches = entryMatcher(query) }: PageOptions = {},
): AsyncGenerator<LogEntry, LogQuerySummary> {
  const first = (query.page - 1) * query.limit;
  const end = first + query.limit;
  let scanned = 0;
  let matched = 0;
  try {
    for (;;) {
      const step = await source.next();
      if (step.done === true) return report.summary(scanned, signal.aborted, matched);
      for (const entry of step.value) {
        if (signal.aborted) break;
        scanned += 1;
        report.lookedBackTo = entry.timeCreated;
        if (!matches(entry)) continue;
        matched += 1;
        if (matched <= first) continue;
        yield entry;
        if (matched === end) return report.summary(scanned, false);
      }
    }
  } finally {
    await source.return();
  }
}

/** Groups entries into batches, which makes long scans cheaper. */
export async function* inBatches<T>(source: AsyncIterable<T>, size = 256): AsyncGenerator<T[], void> {
  let batch: T[] = [];
  for await (const item of source) {
    batch.push(item);
    if (batch.length >= size) {
      yield batch;
      batch = [];
    }
  }
  if (batch.length > 0) yield batch;
}
