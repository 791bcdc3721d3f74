import { clock } from '../../../clock.ts';
import type { LogEntry, LogMetadata, LogQuery, LogQuerySummary } from '../../../protocol/index.ts';
import { logNotFound, recordNotFound } from '../../core/agent-error.ts';
import { printable } from '../../core/plain-text.ts';
import { ChildFailure, readOutput, streamText } from '../../os/child-process.ts';
import {
  entryMatcher,
  sayOmitted,
  type EventLogReader,
  findLog,
  ScanReport,
  inBatches,
  pageOf,
  recordTimes,
} from './log-reader.ts';
import {
  bootLog,
  countArguments,
  FIXED_LOGS,
  isUnitName,
  newestArguments,
  queryArguments,
  recordArguments,
  surveyArguments,
  tailArguments,
  unitLog,
  type JournalLog,
  JournalSurvey,
  NO_SOURCE,
  parseJournalLine,
  SOURCE_FIELDS,
  JournalLines,
} from './journal-format.ts';

const COUNT_MAX = 20_000;
const LIST_BUDGET_MS = 3_000;
const UNITS_MAX = 500;
const BOOTS_MAX = 20;

export interface JournaldOptions {
  command?: string;
  /** Arguments before those of each call, such as `--directory=…` for a journal in another folder. */
  prefix?: readonly string[];
}

/** True if journalctl runs and returns at least one entry. */
export async function hasJournal(options: JournaldOptions = {}): Promise<boolean> {
  const args = [...(options.prefix ?? []), '--no-pager', '--quiet', '--lines=1', '--output=json'];
  try {
    return (await readOutput(options.command ?? 'journalctl', args, { timeoutMs: 5_000 })).includes('{');
  } catch {
    // The program, the rights or the journal are missing, so logs are read from text files.
    return false;
  }
}

export function journaldReader(options: JournaldOptions = {}): EventLogReader {
  const command = options.command ?? 'journalctl';
  const prefix = options.prefix ?? [];

  async function* lines(
    args: readonly string[],
    signal: AbortSignal,
    report = new ScanReport(),
  ): AsyncGenerator<string, void> {
    const split = new JournalLines();
    for await (const text of streamText(command, [...prefix, ...args], { signal })) yield* split.add(text);
    yield* split.end();
    report.unreadable += split.lost;
  }

  async function* entries(
    args: readonly string[],
    signal: AbortSignal,
    report?: ScanReport,
  ): AsyncGenerator<LogEntry, void> {
    for await (const line of lines(args, signal, report)) {
      const entry = parseJournalLine(line);
      if (entry !== undefined) yield entry;
    }
  }

  const valuesOf = async (field: string, signal: AbortSignal) =>
    (await readOutput(command, [...prefix, '--no-pager', '--quiet', `--field=${field}`], { signal }))
      .split('\n')
      .filter(Boolean);

  async function unitLogs(signal: AbortSignal): Promise<JournalLog[]> {
    return (await valuesOf('_SYSTEMD_UNIT', signal)).sort().map(unitLog);
  }

  async function bootLogs(signal: AbortSignal): Promise<JournalLog[]> {
    // journalctl fails here if there is no journal of the current boot. The other logs can still be read.
    const boots = await readOutput(command, [...prefix, '--no-pager', '--quiet', '--list-boots'], {
      signal,
    }).catch(() => '');
    return boots
      .split('\n')
      .flatMap((line) => bootLog(line) ?? [])
      .reverse();
  }

  /** Looks up only the type of log that the name can belong to. */
  async function logNamed(name: string, signal: AbortSignal): Promise<JournalLog> {
    const wanted = name.toLowerCase();
    const fixed = FIXED_LOGS.find((log) => log.name.toLowerCase() === wanted);
    if (fixed !== undefined) return fixed;
    if (wanted.startsWith('boot:')) return findLog(await bootLogs(signal), name);
    if (isUnitName(name)) return findLog(await unitLogs(signal), name);
    throw logNotFound(name);
  }

  /** The journalctl matches for a source, in the case that the journal uses; `undefined` if there are none. */
  async function sourceMatches(
    source: string | undefined,
    signal: AbortSignal,
  ): Promise<string[] | undefined> {
    const wanted = source?.toLowerCase();
    if (wanted === undefined || wanted === NO_SOURCE) return undefined;
    const found = await Promise.all(
      SOURCE_FIELDS.map(async (field) => {
        const values = await valuesOf(field, signal);
        return values.filter((value) => value.toLowerCase() === wanted).map((value) => `${field}=${value}`);
      }),
    ).catch(() => []);
    const matches = found.flat();
    return matches.length === 0 ? undefined : matches;
  }

  let canGrep = true;
  async function* selected(
    log: JournalLog,
    query: LogQuery,
    signal: AbortSignal,
  ): AsyncGenerator<LogEntry, LogQuerySummary> {
    const report = new ScanReport();
    const sources = await sourceMatches(query.source, signal);
    const args = queryArguments(log, query, { sources, canGrep });
    return yield* pageOf(inBatches(entries(args, signal, report)), query, signal, { report });
  }

  /** The metadata of one log, with its entries counted. */
  async function describe(log: JournalLog, signal: AbortSignal): Promise<LogMetadata> {
    const lastWriteTime = await newestTime(log, signal);
    let count = 0;
    for await (const _ of lines(countArguments(log, COUNT_MAX), signal)) count += 1;
    const note =
      count >= COUNT_MAX ? `recordCount stops at ${COUNT_MAX}; the log has more entries.` : undefined;
    return metadataOf(log, { count, lastWriteTime, note });
  }

  /** The metadata of one log in a list of logs. */
  async function summarize(
    log: JournalLog,
    survey: JournalSurvey,
    until: number,
    signal: AbortSignal,
  ): Promise<LogMetadata> {
    const found = survey.of(log);
    const note =
      survey.entries >= COUNT_MAX
        ? `recordCount counts only the newest ${COUNT_MAX} entries of the whole journal.`
        : undefined;
    if (found !== undefined) {
      const lastWriteTime = new Date(found.newestAt).toISOString();
      return metadataOf(log, { count: found.count, lastWriteTime, note });
    }
    // Its entries are older than the counted ones.
    if (clock.monotonic() < until) {
      return metadataOf(log, { count: 0, lastWriteTime: await newestTime(log, signal), note });
    }
    const missing = 'lastWriteTime is missing, because reading it would take too long.';
    return metadataOf(log, {
      count: 0,
      lastWriteTime: '',
      note: note === undefined ? missing : `${note} ${missing}`,
    });
  }

  async function newestTime(log: JournalLog, signal: AbortSignal): Promise<string> {
    let newest = '';
    for await (const entry of entries(newestArguments(log), signal)) newest = entry.timeCreated;
    return newest;
  }

  async function entryWithId(
    args: readonly string[],
    recordId: number,
    signal: AbortSignal,
  ): Promise<LogEntry | undefined> {
    for await (const entry of entries(args, signal)) if (entry.recordId === recordId) return entry;
    return undefined;
  }

  return {
    async list(signal) {
      const until = clock.monotonic() + LIST_BUDGET_MS;
      const survey = new JournalSurvey();
      const takeSurvey = async () => {
        for await (const line of lines(surveyArguments(COUNT_MAX), signal)) survey.add(line);
      };
      // A failing list does not hide the others; without the journal itself, nothing is listed.
      const [units, boots] = await Promise.all([
        unitLogs(signal).catch(() => []),
        bootLogs(signal),
        takeSurvey(),
      ]);
      signal.throwIfAborted();
      const found = [...FIXED_LOGS, ...units.slice(0, UNITS_MAX), ...boots.slice(0, BOOTS_MAX)];
      const described: LogMetadata[] = [];
      for (let at = 0; at < found.length; at += 4) {
        const some = found.slice(at, at + 4).map((log) =>
          summarize(log, survey, until, signal).catch((error: unknown) => {
            signal.throwIfAborted();
            return unreadable(log, error);
          }),
        );
        described.push(...(await Promise.all(some)));
      }
      return sayOmitted(described, FIXED_LOGS.length + units.length + boots.length - found.length);
    },
    async get(name, signal) {
      return describe(await logNamed(name, signal), signal);
    },
    async *query(query, signal) {
      const log = await logNamed(query.name, signal);
      try {
        return yield* selected(log, query, signal);
      } catch (error) {
        if (query.text === undefined || !canGrep || !(error instanceof ChildFailure)) throw error;
        // Like grep, journalctl exits with 1 if it finds nothing.
        if (error.code === 1 && error.detail === '') return { scanned: 0, truncated: false, total: 0 };
        // Some systems build it without the library for patterns, and old ones do not know the option. Then the messages
        // are compared here.
        if (!/pattern|option/i.test(error.detail)) throw error;
        canGrep = false;
        return yield* selected(log, query, signal);
      }
    },
    async record(name, recordId, signal) {
      const log = await logNamed(name, signal);
      for (const ms of recordTimes(recordId)) {
        // The complete record is the raw text to show. journalctl omits its long fields.
        const full = await entryWithId(recordArguments(log, ms, 'all'), recordId, signal);
        if (full === undefined) continue;
        if (full.message !== '') return full;
        const entry = await entryWithId(recordArguments(log, ms, 'entry'), recordId, signal);
        return { ...full, message: entry?.message ?? '' };
      }
      throw recordNotFound(log.name, recordId);
    },
    async *tail(tail, signal) {
      const log = await logNamed(tail.name, signal);
      const matches = entryMatcher(tail);
      for await (const entry of entries(tailArguments(log), signal)) if (matches(entry)) yield entry;
    },
  };
}

function metadataOf(
  log: JournalLog,
  { count, lastWriteTime, note }: { count: number; lastWriteTime: string; note: string | undefined },
): LogMetadata {
  return {
    name: log.name,
    displayName: log.displayName,
    recordCount: count,
    maxSize: 0,
    retentionDays: 0,
    lastWriteTime,
    source: 'journald',
    ...(note !== undefined && { note }),
  };
}

/** A log whose newest entry cannot be read is still listed. */
const unreadable = (log: JournalLog, error: unknown): LogMetadata =>
  metadataOf(log, {
    count: 0,
    lastWriteTime: '',
    note: `This log could not be read: ${printable(error instanceof Error ? error.message : String(error))}`,
  });
