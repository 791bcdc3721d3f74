import { clock } from '../../../../clock.ts';
import type { LogEntry, LogMetadata } from '../../../../protocol/index.ts';
import { recordNotFound } from '../../../core/agent-error.ts';
import { printable } from '../../../core/plain-text.ts';
import { readOutput, streamLines } from '../../../os/processes/child-process.ts';
import { entryMatcher } from '../conditions.ts';
import { findLog } from '../find-log.ts';
import { inBatches, pageOf } from '../page.ts';
import type { EventLogReader } from '../reader.ts';
import {
  bootLog,
  countArguments,
  FIXED_LOGS,
  newestArguments,
  queryArguments,
  recordArguments,
  tailArguments,
  unitLog,
  type JournalLog,
} from './journal-arguments.ts';
import { parseJournalLine } from './journal-format.ts';

const COUNT_MAX = 20_000;
const COUNT_BUDGET_MS = 3_000;
const UNITS_MAX = 500;
const BOOTS_MAX = 20;

export interface JournaldOptions {
  command?: string;
  /** Arguments before those of each call, such as `--directory=…` for a journal in another folder. */
  prefix?: readonly string[];
}

/** True where journalctl runs and returns at least one entry. */
export async function hasJournal(options: JournaldOptions = {}): Promise<boolean> {
  const args = [...(options.prefix ?? []), '--no-pager', '--quiet', '--lines=1', '--output=json'];
  try {
    return (await readOutput(options.command ?? 'journalctl', args, { timeoutMs: 5_000 })).includes('{');
  } catch {
    // The program, the rights or the journal are missing, so the logs must be read from text files.
    return false;
  }
}

export function journaldReader(options: JournaldOptions = {}): EventLogReader {
  const command = options.command ?? 'journalctl';
  const prefix = options.prefix ?? [];

  const lines = (args: readonly string[], signal: AbortSignal) =>
    streamLines(command, [...prefix, ...args], { signal });

  async function* entries(args: readonly string[], signal: AbortSignal): AsyncGenerator<LogEntry, void> {
    for await (const line of lines(args, signal)) {
      const entry = parseJournalLine(line);
      if (entry !== undefined) yield entry;
    }
  }

  async function logs(signal: AbortSignal): Promise<JournalLog[]> {
    // A list that cannot be read does not hide the other logs: without a journal of the present boot, that of boots fails.
    const listed = (what: string) =>
      readOutput(command, [...prefix, '--no-pager', '--quiet', what], { signal }).catch(() => '');
    const [units, boots] = await Promise.all([listed('--field=_SYSTEMD_UNIT'), listed('--list-boots')]);
    signal.throwIfAborted();
    return [
      ...FIXED_LOGS,
      ...units.split('\n').filter(Boolean).sort().slice(0, UNITS_MAX).map(unitLog),
      ...boots
        .split('\n')
        .flatMap((line) => bootLog(line) ?? [])
        .reverse()
        .slice(0, BOOTS_MAX),
    ];
  }

  async function describe(log: JournalLog, countUntil: number, signal: AbortSignal): Promise<LogMetadata> {
    let lastWriteTime = '';
    for await (const entry of entries(newestArguments(log), signal)) lastWriteTime = entry.timeCreated;
    let recordCount = 0;
    let note: string | undefined;
    if (clock.monotonic() < countUntil) {
      for await (const _ of lines(countArguments(log, COUNT_MAX), signal)) recordCount += 1;
      if (recordCount >= COUNT_MAX) note = `recordCount stops at ${COUNT_MAX}; the log has more entries.`;
    } else {
      note = 'recordCount is missing, because counting would take too long.';
    }
    return {
      name: log.name,
      displayName: log.displayName,
      recordCount,
      maxSize: 0,
      retentionDays: 0,
      lastWriteTime,
      source: 'journald',
      ...(note !== undefined && { note }),
    };
  }

  return {
    async list(signal) {
      const until = clock.monotonic() + COUNT_BUDGET_MS;
      const found = await logs(signal);
      const described: LogMetadata[] = [];
      for (let at = 0; at < found.length; at += 4) {
        const some = found.slice(at, at + 4).map((log) =>
          describe(log, until, signal).catch((error: unknown) => {
            signal.throwIfAborted();
            return unreadable(log, error);
          }),
        );
        described.push(...(await Promise.all(some)));
      }
      return described;
    },
    async get(name, signal) {
      return describe(findLog(await logs(signal), name), Infinity, signal);
    },
    async *query(query, signal) {
      const log = findLog(await logs(signal), query.name);
      return yield* pageOf(inBatches(entries(queryArguments(log, query), signal)), query, signal);
    },
    async record(name, recordId, signal) {
      const log = findLog(await logs(signal), name);
      // The complete record is the raw text to show. journalctl omits its long fields.
      let full: LogEntry | undefined;
      for await (const entry of entries(recordArguments(log, recordId, 'all'), signal)) {
        if (entry.recordId !== recordId) continue;
        full = entry;
        break;
      }
      if (full === undefined) throw recordNotFound(log.name, recordId);
      if (full.message !== '') return full;
      for await (const entry of entries(recordArguments(log, recordId, 'entry'), signal)) {
        if (entry.recordId === recordId) return { ...full, message: entry.message };
      }
      return full;
    },
    async *tail(tail, signal) {
      const log = findLog(await logs(signal), tail.name);
      const matches = entryMatcher(tail);
      for await (const entry of entries(tailArguments(log), signal)) if (matches(entry)) yield entry;
    },
  };
}

/** A log whose newest entry or number of entries cannot be read is listed all the same. */
const unreadable = (log: JournalLog, error: unknown): LogMetadata => ({
  name: log.name,
  displayName: log.displayName,
  recordCount: 0,
  maxSize: 0,
  retentionDays: 0,
  lastWriteTime: '',
  source: 'journald',
  note: `This log could not be read: ${printable(error instanceof Error ? error.message : String(error))}`,
});
