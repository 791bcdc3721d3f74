import { z } from 'zod';
import {
  AgentErrorCode,
  type DeviceEvent,
  type LogEntry,
  type LogLevel,
  type LogQuery,
  type LogQuerySummary,
  LOG_PAGE_MAX,
} from '../../../protocol/index.ts';
import { AgentError } from '../../core/agent-error.ts';
import { readPrivateJson, writePrivateJson } from '../../os/files/private-file.ts';
import { deviceEvent } from './device-event.ts';

/** Finds what is new in the machine's logs, by asking each of them for what came since the last time. */

/** Up to where a log was read, and which records around there are known. */
const Mark = z.object({ at: z.number(), ids: z.array(z.number()) });
type Mark = z.infer<typeof Mark>;
const Marks = z.record(z.string(), Mark);
type Marks = z.infer<typeof Marks>;

const LEVELS: LogLevel[] = ['warning', 'error', 'critical'];
/** Writers race and clocks are corrected: what is dated so far back is looked at again. */
const OVERLAP_MS = 60_000;
/** What is told later than that, and dated before, is passed over: the scan has to end somewhere. */
const LATE_MS = 600_000;
/** Where nothing happens, the marks are written this often. */
const KEEP_MARKS_MS = 3_600_000;
/** The first time, so far back. */
const REACH_BACK_MS = 3_600_000;
const QUERY_MS = 20_000;

/** Together they hold whatever the machine logs, and hold nothing twice. */
export function shippedLogs(platform: NodeJS.Platform): readonly string[] {
  switch (platform) {
    case 'win32':
      return ['System', 'Application', 'Security'];
    case 'darwin':
      return ['Errors'];
    default:
      // Of the journal; and, where there is none, of the text files of Debian and of Red Hat.
      return ['System', 'syslog', 'messages', 'auth.log', 'secure'];
  }
}

/** Reads the logs of the machine, newest entries first. Throws `LOG_NOT_FOUND` for a log that does not exist. */
export interface LogSource {
  query(query: LogQuery, signal: AbortSignal): AsyncGenerator<LogEntry, LogQuerySummary>;
}

export interface MachineEventsOptions {
  reader: LogSource;
  logs: readonly string[];
  /** Where the marks are kept. */
  file: string;
  serverTime: () => number;
  /** Keeps what was found; only then is it taken for read. */
  keep: (events: DeviceEvent[]) => Promise<void>;
  warn: (message: string) => void;
}

export class MachineEvents {
  readonly #options: MachineEventsOptions;
  #logs: readonly string[];
  #marks: Marks | undefined;
  /** By a clock that only counts. */
  #marksKeptAt = -Infinity;
  /** Those that could not be read the last time: told once. */
  readonly #failing = new Set<string>();

  constructor(options: MachineEventsOptions) {
    this.#options = options;
    this.#logs = options.logs;
  }

  /** One round through all logs. A log that cannot be read does not keep the others from being read. */
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
        else if (!signal.aborted) this.#tellOnce(log, error);
      }
    }
    // Where there is none at all, one may still come: a machine that has just been set up.
    if (missing.size < this.#logs.length) this.#logs = this.#logs.filter((log) => !missing.has(log));
  }

  async #collectFrom(log: string, marks: Marks, signal: AbortSignal): Promise<void> {
    const { keep, serverTime, file } = this.#options;
    const now = Date.now();
    const before = marks[log] ?? { at: now - REACH_BACK_MS, ids: [] };
    const { entries, isWhole } = await this.#read(log, Math.min(before.at, now) - OVERLAP_MS, signal);
    const known = new Set(before.ids);
    const fresh = entries.filter(({ recordId }) => !known.has(recordId));
    const time = serverTime();
    // Oldest first, as they happened.
    if (fresh.length > 0) await keep(fresh.toReversed().map((entry) => deviceEvent(log, entry, time)));
    const isNew = marks[log] === undefined || fresh.length > 0;
    marks[log] = markAfter({ before, entries, isWhole, now });
    if (!isNew && performance.now() - this.#marksKeptAt < KEEP_MARKS_MS) return;
    await writePrivateJson(file, marks);
    this.#marksKeptAt = performance.now();
  }

  /** Newest first, and no more than a page of them: of a flood only the end is told. */
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
    const within = AbortSignal.any([signal, AbortSignal.timeout(QUERY_MS)]);
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
      this.#options.warn(`Up to where the logs were sent cannot be read: ${String(error)}.`);
      return {};
    }
  }

  #tellOnce(log: string, error: unknown): void {
    if (this.#failing.has(log)) return;
    this.#failing.add(log);
    this.#options.warn(`The log ${log} cannot be sent to the server: ${String(error)}.`);
  }
}

/** An entry dated ahead of the clock does not move the mark there: what comes after it would be passed over. */
export function markAfter({
  before,
  entries,
  isWhole,
  now,
}: {
  before: Mark;
  entries: readonly LogEntry[];
  /** Everything was looked at: what did not come is not there. */
  isWhole: boolean;
  now: number;
}): Mark {
  const times = new Map(entries.map((entry) => [entry.recordId, Date.parse(entry.timeCreated)]));
  const known = [before.at, ...times.values()].filter((ms) => !Number.isNaN(ms));
  const at = Math.min(now, Math.max(...known, isWhole ? now - LATE_MS : 0));
  const ids = [...times].filter(([, ms]) => !(ms < at - OVERLAP_MS)).map(([id]) => id);
  return { at, ids };
}
