import { z } from 'zod';
import { clock } from '../../../clock.ts';
import {
  AgentErrorCode,
  type DeviceEvent,
  type LogEntry,
  type LogLevel,
  type LogQuery,
  type LogQuerySummary,
  LOG_PAGE_MAX,
  type EventCategory,
  type EventLevel,
  LOG_MESSAGE_MAX,
} from '../../../protocol/index.ts';
import { AgentError } from '../../core/agent-error.ts';
import { readPrivateJson, writePrivateJson } from '../../os/files/private-file.ts';
import { firstCharacters, plainText } from '../../core/plain-text.ts';

/** Finds the new entries of the machine's logs by querying each log for the time since the last round. */

/** The time up to which a log was read, and the known records around it. */
const Mark = z.object({ at: z.number(), ids: z.array(z.number()) });
type Mark = z.infer<typeof Mark>;
const Marks = z.record(z.string(), Mark);
type Marks = z.infer<typeof Marks>;

const LEVELS: LogLevel[] = ['warning', 'error', 'critical'];
/** Entries may be written late and clocks are corrected, so each round reads this much again. */
const OVERLAP_MS = 60_000;
/** Entries that are written later than this after their own time are missed, because the scan must end somewhere. */
const LATE_MS = 600_000;
/** Without new entries, the marks are still written this often. */
const KEEP_MARKS_MS = 3_600_000;
/** How far the first round reads back. */
const REACH_BACK_MS = 3_600_000;
const QUERY_MS = 20_000;

/** Logs that together contain everything the machine logs, without duplicates. */
export function shippedLogs(platform: NodeJS.Platform, hasJournal = false): readonly string[] {
  switch (platform) {
    case 'win32':
      return ['System', 'Application', 'Security'];
    case 'darwin':
      return ['Errors'];
    default:
      // Without a journal, the text files of Debian and Red Hat are used. Otherwise they repeat the journal.
      return hasJournal ? ['System'] : ['System', 'syslog', 'messages', 'auth.log', 'secure'];
  }
}

/** Reads the logs of the machine, newest entries first. Throws `LOG_NOT_FOUND` for a log that does not exist. */
export interface LogSource {
  query(query: LogQuery, signal: AbortSignal): AsyncGenerator<LogEntry, LogQuerySummary>;
}

export interface MachineEventsOptions {
  reader: LogSource;
  logs: readonly string[];
  /** The file of the marks. */
  file: string;
  serverTime: () => number;
  /** Stores the entries. They count as read once it has resolved. */
  keep: (events: DeviceEvent[]) => Promise<void>;
  warn: (message: string) => void;
}

export class MachineEvents {
  readonly #options: MachineEventsOptions;
  #logs: readonly string[];
  #marks: Marks | undefined;
  /** By the monotonic clock. */
  #marksKeptAt = -Infinity;
  /** Logs that could not be read in the last round; each is reported once. */
  readonly #failing = new Set<string>();

  constructor(options: MachineEventsOptions) {
    this.#options = options;
    this.#logs = options.logs;
  }

  /** Reads all logs once. A log that cannot be read does not affect the others. */
  async collect(signal: AbortSignal): Promise<void> {
    this.#marks ??= await this.#load();
    const missing = new Set<string>();
    for (const log of this.#logs) {
      if (signal.aborted) return;
      try {
        await this.#collectFrom(log, this.#marks, signal);
        this.#failing.delete(log);
      } catch (error) {
        if (error instanceof AgentError && error.code === AgentErrorCode.logNotFound) missing.add(log);
        else if (!signal.aborted) this.#warnOnce(log, error);
      }
    }
    // If none exists, all are kept: a newly installed machine may get its logs later.
    if (missing.size < this.#logs.length) this.#logs = this.#logs.filter((log) => !missing.has(log));
  }

  async #collectFrom(log: string, marks: Marks, signal: AbortSignal): Promise<void> {
    const { keep, serverTime, file } = this.#options;
    const now = clock.now();
    const before = marks[log] ?? { at: now - REACH_BACK_MS, ids: [] };
    const { entries, isWhole } = await this.#read(log, Math.min(before.at, now) - OVERLAP_MS, signal);
    const known = new Set(before.ids);
    const fresh = entries.filter(({ recordId }) => !known.has(recordId));
    const time = serverTime();
    // Stored oldest first.
    if (fresh.length > 0) await keep(fresh.toReversed().map((entry) => deviceEvent(log, entry, time)));
    const isNew = marks[log] === undefined || fresh.length > 0;
    marks[log] = markAfter({ before, entries, isWhole, now });
    if (!isNew && clock.monotonic() - this.#marksKeptAt < KEEP_MARKS_MS) return;
    await writePrivateJson(file, marks);
    this.#marksKeptAt = clock.monotonic();
  }

  /** Reads one page, newest first: of a flood of entries only the newest are sent. */
  async #read(
    log: string,
    since: number,
    signal: AbortSignal,
  ): Promise<{ entries: LogEntry[]; isWhole: boolean }> {
    const query = {
      name: log,
      level: LEVELS,
      startTime: new Date(since).toISOString(),
      page: 1,
      limit: LOG_PAGE_MAX,
    };
    const entries: LogEntry[] = [];
    const within = AbortSignal.any([signal, clock.timeoutSignal(QUERY_MS)]);
    const found = this.#options.reader.query(query, within);
    for (;;) {
      const next = await found.next();
      if (next.done === true) return { entries, isWhole: !next.value.truncated };
      entries.push(next.value);
    }
  }

  async #load(): Promise<Marks> {
    try {
      return Marks.parse((await readPrivateJson(this.#options.file)) ?? {});
    } catch (error) {
      this.#options.warn(
        `The position in the logs could not be read, so the last hour may be sent again: ${String(error)}.`,
      );
      return {};
    }
  }

  #warnOnce(log: string, error: unknown): void {
    if (this.#failing.has(log)) return;
    this.#failing.add(log);
    this.#options.warn(`The log ${log} cannot be sent to the server: ${String(error)}.`);
  }
}

/** An entry that is dated in the future does not move the mark, because later entries would then be missed. */
export function markAfter({
  before,
  entries,
  isWhole,
  now,
}: {
  before: Mark;
  entries: readonly LogEntry[];
  /** True if the log was read completely. */
  isWhole: boolean;
  now: number;
}): Mark {
  const times = new Map(entries.map((entry) => [entry.recordId, Date.parse(entry.timeCreated)]));
  const known = [before.at, ...times.values()].filter((ms) => !Number.isNaN(ms));
  const at = Math.min(now, Math.max(...known, isWhole ? now - LATE_MS : 0));
  const ids = [...times].filter(([, ms]) => !(ms < at - OVERLAP_MS)).map(([id]) => id);
  return { at, ids };
}

/** Converts log entries of the machine to the events that the server stores. */

const EVENT_LEVELS: Readonly<Record<LogLevel, EventLevel>> = {
  critical: 'critical',
  error: 'error',
  warning: 'warning',
  information: 'info',
  verbose: 'info',
};

/** @param now  the server's time: an entry that a wrong clock has dated later gets this time */
export function deviceEvent(log: string, entry: LogEntry, now: number): DeviceEvent {
  const at = Date.parse(entry.timeCreated);
  return {
    timestamp: new Date(Number.isNaN(at) ? now : Math.max(0, Math.min(at, now))).toISOString(),
    level: EVENT_LEVELS[entry.level],
    category: categoryOf(log, entry),
    source: orElse(firstCharacters(entry.source, 255), log),
    // Uses the id of the record, not of the kind of event: two records with the same text are two events. It is sent
    // whole, because two records of a log with a long name may have ids that begin alike.
    eventId: plainText(`${log}:${entry.recordId}`),
    message: firstCharacters(entry.message, LOG_MESSAGE_MAX),
    details: {
      log,
      recordId: entry.recordId,
      eventId: entry.eventId,
      category: firstCharacters(entry.category, 255),
      user: entry.user === null ? null : firstCharacters(entry.user, 255),
      computer: firstCharacters(entry.computer, 255),
    },
  };
}

const orElse = (text: string, other: string) => (text === '' ? other : text);

const SECURITY = /^(security|auth|authpriv|secure|auth\.log)$/i;
const KERNEL = /^(kernel|kern)/i;

function categoryOf(log: string, { category, source }: LogEntry): EventCategory {
  if ([log, category].some((name) => SECURITY.test(name))) return 'security';
  if ([category, source].some((name) => KERNEL.test(name))) return 'hardware';
  return /^application$/i.test(log) ? 'application' : 'system';
}
