import { clock } from '../../clock.ts';
import type { LogConditions, LogEntry, LogMetadata } from '../../protocol/index.ts';
import { logNotFound, recordNotFound } from '../core/agent-error.ts';
import type { EventLogReader } from '../capabilities/event-logs/reader.ts';
import { entryMatcher } from '../capabilities/event-logs/conditions.ts';
import { mix } from './random.ts';
import { contentFor, type LogPace, logNamesOf, paceOf, userFor } from './synthetic-entries.ts';
import { osOf } from './synthetic-machine.ts';

/** Simulated logs: record n of a log is computed when it is read, and is always the same. */

const SCAN_SLICE = 2000;
const TAIL_EVERY_MS = 1000;

export class SyntheticLogs implements EventLogReader {
  readonly #index: number;
  readonly #hostname: string;
  readonly #hasFailingDisk: boolean;

  constructor(index: number, { hostname, hasFailingDisk }: { hostname: string; hasFailingDisk: boolean }) {
    this.#index = index;
    this.#hostname = hostname;
    this.#hasFailingDisk = hasFailingDisk;
  }

  async list(): Promise<LogMetadata[]> {
    return logNamesOf(osOf(this.#index)).map((name) => this.#metadata(name));
  }

  async get(name: string): Promise<LogMetadata> {
    return this.#metadata(this.#known(name));
  }

  async record(name: string, recordId: number): Promise<LogEntry> {
    const known = this.#known(name);
    const pace = this.#paceOf(known);
    const newest = newestRecord(pace, clock.now());
    if (recordId > newest || recordId <= newest - pace.keptRecords) throw recordNotFound(known, recordId);
    return this.#entry(known, recordId);
  }

  async *query(
    { name, page, limit, ...conditions }: Parameters<EventLogReader['query']>[0],
    signal: AbortSignal,
  ) {
    const known = this.#known(name);
    const pace = this.#paceOf(known);
    const newest = newestRecord(pace, clock.now());
    const oldest = Math.max(newest - pace.keptRecords + 1, recordAt(pace, conditions.startTime) ?? 0);
    const matches = entryMatcher(conditions);
    let skip = (page - 1) * limit;
    let given = 0;
    let scanned = 0;
    for (let id = Math.min(newest, recordAt(pace, conditions.endTime) ?? newest); id >= oldest; id--) {
      scanned += 1;
      if (scanned % SCAN_SLICE === 0) {
        // One of thousands of machines must not block the others.
        await new Promise((resolve) => setImmediate(resolve));
        if (signal.aborted) return { scanned, truncated: true };
      }
      const entry = this.#entry(known, id);
      if (!matches(entry)) continue;
      if (skip > 0) skip -= 1;
      else {
        yield entry;
        given += 1;
        if (given === limit) break;
      }
    }
    return { scanned, truncated: false };
  }

  async *tail({ name, ...conditions }: Parameters<EventLogReader['tail']>[0], signal: AbortSignal) {
    const known = this.#known(name);
    const matches = entryMatcher(conditions);
    const pace = this.#paceOf(known);
    let last = newestRecord(pace, clock.now());
    while (!signal.aborted) {
      await pauseOrAbort(TAIL_EVERY_MS, signal);
      for (const newest = newestRecord(pace, clock.now()); last < newest && !signal.aborted; ) {
        const entry = this.#entry(known, ++last);
        if (matches(entry)) yield entry;
      }
    }
  }

  #known(name: string): string {
    const known = logNamesOf(osOf(this.#index)).find((log) => log.toLowerCase() === name.toLowerCase());
    if (known === undefined) throw logNotFound(name);
    return known;
  }

  #paceOf(log: string): LogPace {
    return paceOf(log, this.#hasFailingDisk);
  }

  #metadata(name: string): LogMetadata {
    const pace = this.#paceOf(name);
    return {
      name,
      displayName: name,
      recordCount: pace.keptRecords,
      maxSize: 20_971_520,
      retentionDays: 0,
      lastWriteTime: new Date(timeOf(pace, newestRecord(pace, clock.now()))).toISOString(),
      note: 'A simulated machine: its entries are made up.',
    };
  }

  #entry(log: string, id: number): LogEntry {
    const seed = mix(this.#index, log.length, log.charCodeAt(0), id);
    const pace = this.#paceOf(log);
    return {
      recordId: id,
      timeCreated: new Date(timeOf(pace, id) + (seed % pace.recordEveryMs)).toISOString(),
      ...contentFor({ osType: osOf(this.#index), log, hasFailingDisk: this.#hasFailingDisk }, seed),
      category: log,
      user: userFor(seed),
      computer: this.#hostname,
    };
  }
}

const newestRecord = ({ recordEveryMs }: LogPace, now: number) => Math.floor(now / recordEveryMs) - 1;
const timeOf = ({ recordEveryMs }: LogPace, id: number) => id * recordEveryMs;
/** The record that is written at that time. */
const recordAt = ({ recordEveryMs }: LogPace, time: LogConditions['startTime']) =>
  time === undefined ? undefined : Math.floor(Date.parse(time) / recordEveryMs);

async function pauseOrAbort(ms: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = clock.setTimeout(done, ms);
    signal.addEventListener('abort', done, { once: true });
    function done() {
      clock.clear(timer);
      signal.removeEventListener('abort', done);
      resolve();
    }
  });
}
