import type { LogConditions, LogEntry, LogLevel, LogMetadata, OsType } from '../../protocol/index.ts';
import { logNotFound, recordNotFound } from '../core/agent-error.ts';
import type { EventLogReader } from '../capabilities/event-logs/reader.ts';
import { entryMatcher } from '../capabilities/event-logs/conditions.ts';
import { mix, pick } from './random.ts';
import { hostnameOf, osOf } from './synthetic-machine.ts';

/** Simulated logs: record n of a log is computed when it is read, and is always the same. */

const LOGS: Record<OsType, readonly string[]> = {
  windows: ['Application', 'Security', 'System', 'Setup'],
  linux: ['System', 'Kernel', 'Auth'],
  macos: ['System', 'Install'],
};

interface Template {
  source: string;
  eventId: number;
  level: LogLevel;
  message: string;
}

const TEMPLATES: readonly [Template, ...Template[]] = [
  {
    source: 'Service Control Manager',
    eventId: 7036,
    level: 'information',
    message: 'The print spooler service entered the running state.',
  },
  {
    source: 'Windows Update Agent',
    eventId: 19,
    level: 'information',
    message: 'Installation successful: security update KB50{n}.',
  },
  {
    source: 'Time-Service',
    eventId: 35,
    level: 'information',
    message: 'The time service is now synchronizing with time.example.net.',
  },
  {
    source: 'DNS Client',
    eventId: 1014,
    level: 'warning',
    message: 'Name resolution for host-{n}.example.net timed out.',
  },
  {
    source: 'Disk',
    eventId: 153,
    level: 'warning',
    message: 'The IO operation at logical block address 0x{n} was retried.',
  },
  { source: 'Disk', eventId: 7, level: 'error', message: 'The device has a bad block at 0x{n}.' },
  {
    source: 'Application Error',
    eventId: 1000,
    level: 'error',
    message: 'Faulting application spoolsv.exe, exception code 0xc0000005, offset 0x{n}.',
  },
  {
    source: 'Kernel-Power',
    eventId: 41,
    level: 'critical',
    message: 'The system has rebooted without cleanly shutting down first.',
  },
];

/** The frequency of each template: errors are few, and critical entries rare. */
const WEIGHTS = [40, 14, 20, 10, 8, 4, 3, 1];
const TOTAL_WEIGHT = WEIGHTS.reduce((sum, weight) => sum + weight, 0);

const RECORD_EVERY_MS = 47_000;
const KEPT_DAYS = 30;
const KEPT = Math.floor((KEPT_DAYS * 86_400_000) / RECORD_EVERY_MS);
const SCAN_SLICE = 2000;
const TAIL_EVERY_MS = 1000;

export class SyntheticLogs implements EventLogReader {
  readonly #index: number;

  constructor(index: number) {
    this.#index = index;
  }

  async list(): Promise<LogMetadata[]> {
    return LOGS[osOf(this.#index)].map((name) => this.#metadata(name));
  }

  async get(name: string): Promise<LogMetadata> {
    return this.#metadata(this.#known(name));
  }

  async record(name: string, recordId: number): Promise<LogEntry> {
    const known = this.#known(name);
    const newest = newestRecord(Date.now());
    if (recordId > newest || recordId <= newest - KEPT) throw recordNotFound(known, recordId);
    return this.#entry(known, recordId);
  }

  async *query(
    { name, page, limit, ...conditions }: Parameters<EventLogReader['query']>[0],
    signal: AbortSignal,
  ) {
    const known = this.#known(name);
    const newest = newestRecord(Date.now());
    const oldest = Math.max(newest - KEPT + 1, recordAt(conditions.startTime) ?? 0);
    const matches = entryMatcher(conditions);
    let skip = (page - 1) * limit;
    let given = 0;
    let scanned = 0;
    for (let id = Math.min(newest, recordAt(conditions.endTime) ?? newest); id >= oldest; id--) {
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
    let last = newestRecord(Date.now());
    while (!signal.aborted) {
      await pauseOrAbort(TAIL_EVERY_MS, signal);
      for (const newest = newestRecord(Date.now()); last < newest && !signal.aborted; ) {
        const entry = this.#entry(known, ++last);
        if (matches(entry)) yield entry;
      }
    }
  }

  #known(name: string): string {
    const known = LOGS[osOf(this.#index)].find((log) => log.toLowerCase() === name.toLowerCase());
    if (known === undefined) throw logNotFound(name);
    return known;
  }

  #metadata(name: string): LogMetadata {
    const newest = newestRecord(Date.now());
    return {
      name,
      displayName: name,
      recordCount: KEPT,
      maxSize: 20_971_520,
      retentionDays: KEPT_DAYS,
      lastWriteTime: new Date(timeOf(newest)).toISOString(),
      note: 'A simulated machine: its entries are made up.',
    };
  }

  #entry(log: string, id: number): LogEntry {
    const seed = mix(this.#index, log.length, log.charCodeAt(0), id);
    const { source, eventId, level, message } = templateFor(seed);
    return {
      recordId: id,
      timeCreated: new Date(timeOf(id) + (seed % RECORD_EVERY_MS)).toISOString(),
      level,
      source,
      eventId,
      message: message.replace('{n}', (mix(seed, 1) % 0xff_ff).toString(16)),
      category: log,
      user: pick([null, 'SYSTEM', 'NETWORK SERVICE'] as const, seed, 2),
      computer: hostnameOf(this.#index),
    };
  }
}

function templateFor(seed: number): Template {
  let weight = seed % TOTAL_WEIGHT;
  const index = WEIGHTS.findIndex((share) => (weight -= share) < 0);
  return TEMPLATES[index] ?? TEMPLATES[0];
}

const newestRecord = (now: number) => Math.floor(now / RECORD_EVERY_MS) - 1;
const timeOf = (id: number) => id * RECORD_EVERY_MS;
/** The record that is written at that time. */
const recordAt = (time: LogConditions['startTime']) =>
  time === undefined ? undefined : Math.floor(Date.parse(time) / RECORD_EVERY_MS);

async function pauseOrAbort(ms: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done, { once: true });
    function done() {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    }
  });
}
