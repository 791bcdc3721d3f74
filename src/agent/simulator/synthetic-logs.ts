import { clock, DAY_MS } from '../../clock.ts';
import type { LogConditions, LogEntry, LogMetadata, LogLevel, OsType } from '../../protocol/index.ts';
import { logNotFound, recordNotFound } from '../core/agent-error.ts';
import { type EventLogReader, entryMatcher } from '../capabilities/event-logs/log-reader.ts';
import { mix, osOf, pick } from './synthetic-machine.ts';

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
/** The record that is written at this time. */
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

/** What simulated machines write into their logs, and how often. */

interface Template {
  source: string;
  eventId: number;
  level: LogLevel;
  /** `{n}` is a number that differs from entry to entry. */
  message: string;
  /** Its relative frequency within its log: errors are few, and critical entries rare. */
  weight: number;
}

type Line = [source: string, eventId: number, level: LogLevel, weight: number, message: string];
type Templates = readonly [Template, ...Template[]];

const templates = (first: Line, ...others: Line[]): Templates => [
  asTemplate(first),
  ...others.map(asTemplate),
];

function asTemplate([source, eventId, level, weight, message]: Line): Template {
  return { source, eventId, level, weight, message };
}

const WINDOWS_SYSTEM = templates(
  [
    'Service Control Manager',
    7036,
    'information',
    40,
    'The print spooler service entered the running state.',
  ],
  [
    'Windows Update Agent',
    19,
    'information',
    14,
    'Installation successful: security update for Windows (KB50{n}).',
  ],
  [
    'Time-Service',
    35,
    'information',
    20,
    'The time service is now synchronizing the system time with time.example.net.',
  ],
  ['DNS Client Events', 1014, 'warning', 10, 'Name resolution for host-{n}.example.net timed out.'],
  ['Disk', 153, 'warning', 4, 'The IO operation at logical block address 0x{n} for Disk 0 was retried.'],
  ['Service Control Manager', 7034, 'error', 3, 'The Print Spooler service terminated unexpectedly.'],
  ['Kernel-Power', 41, 'critical', 1, 'The system has rebooted without cleanly shutting down first.'],
);
const WINDOWS_APPLICATION = templates(
  ['MsiInstaller', 1033, 'information', 12, 'Windows Installer installed the product. Product code: {n}.'],
  ['ESENT', 326, 'information', 20, 'The database engine attached a database (process {n}).'],
  ['Office Software Protection', 1003, 'information', 10, 'The licensing service has completed its check.'],
  ['Application Hang', 1002, 'warning', 3, 'The program OUTLOOK.EXE stopped interacting with Windows.'],
  [
    'Application Error',
    1000,
    'error',
    3,
    'Faulting application name: spoolsv.exe, exception code: 0xc0000005, fault offset: 0x{n}.',
  ],
);
const WINDOWS_SECURITY = templates(
  ['Security-Auditing', 4624, 'information', 30, 'An account was successfully logged on. Logon ID: 0x{n}.'],
  ['Security-Auditing', 4634, 'information', 24, 'An account was logged off. Logon ID: 0x{n}.'],
  ['Security-Auditing', 4672, 'information', 8, 'Special privileges were assigned to a new logon.'],
  ['Security-Auditing', 4625, 'warning', 3, 'An account failed to log on. Source port: {n}.'],
);
const LINUX_SYSTEM = templates(
  ['systemd', 0, 'information', 30, 'Started session-{n}.scope - Session of user root.'],
  ['CRON', 0, 'information', 26, '(root) CMD (test -x /usr/sbin/anacron || run-parts /etc/cron.hourly)'],
  ['systemd-timesyncd', 0, 'information', 8, 'Contacted time server 10.0.0.1:123 (ntp.example.net).'],
  ['systemd-resolved', 0, 'warning', 5, 'Using degraded feature set UDP instead of UDP+EDNS0 for 10.0.0.1.'],
  ['postfix/smtp', 0, 'warning', 4, '{n}: connect to mail.example.net[10.0.0.25]:25: Connection timed out'],
  [
    'nginx',
    0,
    'error',
    3,
    'connect() failed (111: Connection refused) while connecting to upstream, request {n}',
  ],
  ['kernel', 0, 'critical', 1, 'Out of memory: Killed process {n} (java)'],
);
const MAC_SYSTEM = templates(
  ['com.apple.xpc.launchd', 0, 'information', 30, 'Service exited with abnormal code: 1 (job {n}).'],
  ['powerd', 0, 'information', 18, 'Wake from normal sleep: RTC/Maintenance.'],
  ['mDNSResponder', 0, 'warning', 6, 'Query for host-{n}.local. was not answered.'],
  ['WindowServer', 0, 'error', 2, 'Display {n} did not report its mode in time.'],
);

/** The logs of each system. */
const LOGS: Readonly<Record<OsType, Readonly<Record<string, Templates>>>> = {
  windows: {
    Application: WINDOWS_APPLICATION,
    Security: WINDOWS_SECURITY,
    System: WINDOWS_SYSTEM,
    Setup: templates(
      ['Servicing', 2, 'information', 9, 'Package KB50{n} was successfully changed to the Installed state.'],
      ['Servicing', 3, 'error', 1, 'Package KB50{n} failed to be changed to the Installed state.'],
    ),
  },
  linux: {
    System: LINUX_SYSTEM,
    Kernel: templates(
      ['kernel', 0, 'information', 20, 'audit: type=1400 apparmor="ALLOWED" pid={n}'],
      [
        'kernel',
        0,
        'warning',
        4,
        'TCP: request_sock_TCP: Possible SYN flooding on port 443. Sending cookies.',
      ],
      ['kernel', 0, 'error', 1, 'ata1.00: failed command: READ FPDMA QUEUED, tag {n}'],
    ),
    Auth: templates(
      ['sshd', 0, 'information', 12, 'Accepted publickey for deploy from 10.0.0.8 port {n} ssh2'],
      ['sudo', 0, 'information', 6, 'deploy : TTY=pts/0 ; COMMAND=/usr/bin/apt-get update'],
      ['sshd', 0, 'warning', 5, 'Failed password for invalid user admin from 10.0.0.77 port {n} ssh2'],
    ),
  },
  macos: {
    System: MAC_SYSTEM,
    Install: templates(
      ['softwareupdated', 0, 'information', 9, 'Scan for updates has finished, {n} products were looked at.'],
      ['Installer', 0, 'error', 1, 'Package {n} could not be installed: the signature has expired.'],
    ),
  },
};

/** A disk that is about to fail fills the log of the system with its errors, among the usual entries. */
const FAILING_DISK: Templates = [
  ...templates(
    ['Disk', 7, 'error', 42, 'The device, \\Device\\Harddisk0\\DR0, has a bad block at 0x{n}.'],
    ['Disk', 153, 'warning', 28, 'The IO operation at logical block address 0x{n} for Disk 0 was retried.'],
    ['storahci', 129, 'warning', 9, 'Reset to device, \\Device\\RaidPort0, was issued.'],
    [
      'Disk',
      51,
      'warning',
      8,
      'An error was detected on device \\Device\\Harddisk0\\DR0 during a paging operation (block 0x{n}).',
    ],
    ['Ntfs', 55, 'critical', 3, 'A corruption was discovered in the file system structure on volume C:.'],
  ),
  ...WINDOWS_SYSTEM,
];

/** How fast a log grows, and how much of it is kept. */
interface LogPace {
  recordEveryMs: number;
  keptRecords: number;
}

const pace = (recordEveryMs: number, keptDays: number): LogPace => ({
  recordEveryMs,
  keptRecords: Math.floor((keptDays * DAY_MS) / recordEveryMs),
});
const USUAL = pace(47_000, 30);
/** So frequent that the entries of only two days fit into the log. */
const FLOOD = pace(4000, 2);

/** The log that a failing disk floods. */
const isFlooded = (log: string, hasFailingDisk: boolean) => hasFailingDisk && log === 'System';

const paceOf = (log: string, hasFailingDisk: boolean): LogPace =>
  isFlooded(log, hasFailingDisk) ? FLOOD : USUAL;

/** The content of an entry, always the same for one seed. */
function contentFor(
  { osType, log, hasFailingDisk }: { osType: OsType; log: string; hasFailingDisk: boolean },
  seed: number,
): Omit<Template, 'weight'> {
  const choice = isFlooded(log, hasFailingDisk) ? FAILING_DISK : (LOGS[osType][log] ?? WINDOWS_SYSTEM);
  const { source, eventId, level, message } = weighted(choice, seed);
  return { source, eventId, level, message: message.replace('{n}', (mix(seed, 1) % 0xff_ff).toString(16)) };
}

function weighted(choice: Templates, seed: number): Template {
  let at = seed % choice.reduce((sum, { weight }) => sum + weight, 0);
  return choice.find(({ weight }) => (at -= weight) < 0) ?? choice[0];
}

const LOG_NAMES: Readonly<Record<OsType, readonly string[]>> = {
  windows: Object.keys(LOGS.windows),
  linux: Object.keys(LOGS.linux),
  macos: Object.keys(LOGS.macos),
};

const logNamesOf = (osType: OsType): readonly string[] => LOG_NAMES[osType];

const PEOPLE = [null, 'SYSTEM', 'NETWORK SERVICE'] as const;
const userFor = (seed: number): string | null => pick(PEOPLE, seed, 2);
