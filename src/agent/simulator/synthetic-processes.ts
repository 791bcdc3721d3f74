import { clock, MINUTE_MS, SECOND_MS } from '../../clock.ts';
import { AgentErrorCode, type MachineProcess, type OsType } from '../../protocol/index.ts';
import type { Processes } from '../capabilities/processes/machine-processes.ts';
import { AgentError } from '../core/agent-error.ts';
import { fraction, mix, osOf, syntheticHeartbeat } from './synthetic-machine.ts';

/** The processes of a simulated machine. They depend on its number, the time, and what people have ended. */

type Entry = readonly [name: string, user: string, commandLine: string, megabytes: number, weight: number];

/** The first one cannot be ended. Weights share the load of the processors. */
const PROCESSES: Readonly<Record<OsType, readonly Entry[]>> = {
  windows: [
    ['System', String.raw`NT AUTHORITY\SYSTEM`, '', 1, 2],
    ['csrss.exe', String.raw`NT AUTHORITY\SYSTEM`, '', 6, 0],
    ['lsass.exe', String.raw`NT AUTHORITY\SYSTEM`, String.raw`C:\Windows\system32\lsass.exe`, 28, 1],
    [
      'muster-agent.exe',
      String.raw`NT AUTHORITY\SYSTEM`,
      String.raw`"C:\Program Files\Muster\muster-agent.exe" run`,
      84,
      1,
    ],
    [
      'chrome.exe',
      String.raw`DESK\user`,
      String.raw`"C:\Program Files\Google\Chrome\Application\chrome.exe" --type=renderer`,
      612,
      30,
    ],
    [
      'chrome.exe',
      String.raw`DESK\user`,
      String.raw`"C:\Program Files\Google\Chrome\Application\chrome.exe"`,
      388,
      8,
    ],
    [
      'OUTLOOK.EXE',
      String.raw`DESK\user`,
      String.raw`"C:\Program Files\Microsoft Office\root\Office16\OUTLOOK.EXE"`,
      441,
      6,
    ],
    [
      'EXCEL.EXE',
      String.raw`DESK\user`,
      String.raw`"C:\Program Files\Microsoft Office\root\Office16\EXCEL.EXE" "C:\Users\user\Documents\Stock.xlsx"`,
      296,
      10,
    ],
    ['explorer.exe', String.raw`DESK\user`, String.raw`C:\Windows\Explorer.EXE`, 164, 3],
    ['MsMpEng.exe', String.raw`NT AUTHORITY\SYSTEM`, '', 208, 12],
    [
      'svchost.exe',
      String.raw`NT AUTHORITY\LOCAL SERVICE`,
      String.raw`C:\Windows\System32\svchost.exe -k LocalServiceNetworkRestricted -p`,
      22,
      1,
    ],
    [
      'svchost.exe',
      String.raw`NT AUTHORITY\NETWORK SERVICE`,
      String.raw`C:\Windows\system32\svchost.exe -k NetworkService -p`,
      18,
      1,
    ],
    ['spoolsv.exe', String.raw`NT AUTHORITY\SYSTEM`, String.raw`C:\Windows\System32\spoolsv.exe`, 17, 1],
    [
      'SearchIndexer.exe',
      String.raw`NT AUTHORITY\SYSTEM`,
      String.raw`C:\Windows\system32\SearchIndexer.exe /Embedding`,
      46,
      4,
    ],
  ],
  linux: [
    ['systemd', 'root', '/sbin/init', 13, 0],
    ['muster-agent', 'root', '/opt/muster/current/muster-agent run', 82, 1],
    ['postgres', 'postgres', '/usr/lib/postgresql/16/bin/postgres -D /var/lib/postgresql/16/main', 96, 4],
    ['postgres', 'postgres', 'postgres: shop shop 127.0.0.1(51820) SELECT', 312, 34],
    ['nginx', 'root', 'nginx: master process /usr/sbin/nginx -g daemon on;', 9, 0],
    ['nginx', 'www-data', 'nginx: worker process', 14, 5],
    ['node', 'app', '/usr/bin/node /srv/app/server.js', 228, 14],
    ['rsyslogd', 'syslog', '/usr/sbin/rsyslogd -n -iNONE', 7, 1],
    ['cron', 'root', '/usr/sbin/cron -f', 3, 0],
    ['sshd', 'root', 'sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups', 8, 0],
    ['systemd-journald', 'root', '/lib/systemd/systemd-journald', 41, 2],
    [
      'unattended-upgr',
      'root',
      '/usr/bin/python3 /usr/share/unattended-upgrades/unattended-upgrade-shutdown',
      22,
      0,
    ],
  ],
  macos: [
    ['launchd', 'root', '/sbin/launchd', 24, 1],
    ['muster-agent', 'root', '/opt/muster/current/muster-agent run', 79, 1],
    [
      'WindowServer',
      '_windowserver',
      '/System/Library/PrivateFrameworks/SkyLight.framework/Resources/WindowServer -daemon',
      188,
      14,
    ],
    ['Safari', 'user', '/Applications/Safari.app/Contents/MacOS/Safari', 402, 20],
    [
      'com.apple.WebKit.WebContent',
      'user',
      '/System/Library/Frameworks/WebKit.framework/com.apple.WebKit.WebContent',
      356,
      16,
    ],
    ['Mail', 'user', '/System/Applications/Mail.app/Contents/MacOS/Mail', 164, 4],
    ['Finder', 'user', '/System/Library/CoreServices/Finder.app/Contents/MacOS/Finder', 92, 2],
    ['mds_stores', 'root', '/System/Library/Frameworks/CoreServices.framework/mds_stores', 68, 8],
  ],
};

const MEGABYTE = 2 ** 20;
const FIRST_PID = 400;
const ENDS_MS = 300;
/** Programs come back, as those of a system that is in use. */
const BACK_MS = 2 * MINUTE_MS;
const PROTECTED = /^(System|csrss\.exe|lsass\.exe|systemd|launchd|muster-agent(\.exe)?)$/;

export class SyntheticProcesses implements Processes {
  readonly #index: number;
  /** When processes were ended, by their place. */
  readonly #ended = new Map<number, number>();

  constructor(index: number) {
    this.#index = index;
  }

  async list(): Promise<{ processes: readonly MachineProcess[]; total: number }> {
    const processes = this.#now();
    return { processes, total: processes.length };
  }

  async end({ pid, startedAt }: { pid: number; startedAt: string }) {
    const found = this.#now().find((one) => one.pid === pid);
    if (found === undefined) {
      throw new AgentError(AgentErrorCode.processNotFound, `This device has no process ${pid} now.`);
    }
    if (found.startedAt !== startedAt) {
      throw new AgentError(
        AgentErrorCode.processReplaced,
        `The process ${pid} is another one now: ${found.name}, which started at ${found.startedAt}.`,
      );
    }
    if (found.isProtected === true) {
      throw new AgentError(
        AgentErrorCode.processProtected,
        `The machine cannot run without ${found.name} (${pid}).`,
      );
    }
    await clock.sleep(ENDS_MS);
    this.#ended.set(this.#placeOf(pid), clock.now());
    const { name, user } = found;
    return { outcome: 'ended' as const, name, graceSeconds: 5, ...(user === undefined ? {} : { user }) };
  }

  #now(): MachineProcess[] {
    const now = clock.now();
    const index = this.#index;
    const { metrics } = syntheticHeartbeat(index, now, { agentVersion: '', hasFailingDisk: false });
    const entries = PROCESSES[osOf(index)];
    const weights = entries.reduce((sum, [, , , , weight]) => sum + weight, 0);
    const tick = Math.floor(now / SECOND_MS);
    return entries
      .flatMap(([name, user, commandLine, megabytes, weight], place): MachineProcess[] => {
        const ended = this.#ended.get(place);
        if (ended !== undefined && now < ended + BACK_MS) return [];
        const share = (weight / weights) * (0.6 + 0.8 * fraction(index, 70 + place, tick));
        const startedAt = ended === undefined ? this.#startOf(place) : ended + BACK_MS;
        return [
          {
            pid: this.#pidOf(place),
            parentPid: place === 0 ? 0 : this.#pidOf(0),
            name,
            user,
            ...(commandLine === '' ? {} : { commandLine }),
            cpuPercent: Math.round((metrics?.cpuPercent ?? 0) * share * 10) / 10,
            memoryBytes: Math.round(megabytes * MEGABYTE * (0.9 + 0.2 * fraction(index, 80 + place))),
            startedAt: new Date(startedAt).toISOString(),
            ...(osOf(index) === 'windows' ? {} : { state: share > 0.15 ? 'running' : 'sleeping' }),
            ...(PROTECTED.test(name) ? { isProtected: true } : {}),
          },
        ];
      })
      .toSorted((a, b) => (b.cpuPercent ?? 0) - (a.cpuPercent ?? 0));
  }

  /** The first one has the number that the system gives it. */
  #pidOf(place: number): number {
    if (place === 0) return osOf(this.#index) === 'windows' ? 4 : 1;
    return FIRST_PID + place * 212 + (mix(this.#index, 90) % 200);
  }

  #placeOf(pid: number): number {
    return PROCESSES[osOf(this.#index)].findIndex((_entry, place) => this.#pidOf(place) === pid);
  }

  /** A morning of the last days, and always the same one. */
  #startOf(place: number): number {
    const days = 1 + (mix(this.#index, 9) % 20);
    const day = Math.floor(SINCE / 86_400_000) * 86_400_000 - days * 86_400_000;
    return day + 7 * 3_600_000 + place * 1700 + (mix(this.#index, 91) % 3_600_000);
  }
}

/** When the simulation started. */
const SINCE = clock.now();
