import type { ProcessState } from '../../../protocol/index.ts';
import type { Sources } from '../machine-sources.ts';
import type { IdentifiedProcess, ProcessDetails, ProcessReader, RunningProcess } from './process-reader.ts';

const PROGRAM_MS = 10_000;
const KIBIBYTE = 1024;

/** Processes by `ps`. */
export const MACOS_PROCESSES: ProcessReader = {
  async read(sources) {
    const columns = 'pid=,rss=,time=,ppid=,state=,lstart=,comm=';
    const output = await sources.output('ps', ['-A', '-o', columns], PROGRAM_MS);
    const processes = parseIdentified(output ?? '');
    if (processes.length === 0) throw new Error('ps lists no processes.');
    return processes;
  },
  async details(sources) {
    const output = await sources.output('ps', ['-A', '-ww', '-o', 'pid=,user=,command='], PROGRAM_MS);
    return parseDetails(output ?? '');
  },
};

/** What samples of metrics need. */
export const busyProcesses = async (sources: Sources): Promise<RunningProcess[] | undefined> => {
  const output = await sources.output('ps', ['-A', '-o', 'pid=,rss=,time=,comm='], PROGRAM_MS);
  return output === undefined ? undefined : parseProcesses(output);
};

/** Lines such as `812 10240 62:03.04 /usr/libexec/x`. */
export function parseProcesses(output: string): RunningProcess[] {
  return output.split('\n').flatMap((line) => {
    const [, pid, rss, time = '', command = ''] = /^\s*(\d+)\s+(\d+)\s+([\d:.-]+)\s+(.*\S)/.exec(line) ?? [];
    if (pid === undefined) return [];
    const cpuSeconds = secondsOf(time);
    return Number.isFinite(cpuSeconds)
      ? [{ pid: Number(pid), name: nameOf(command), cpuSeconds, ramBytes: Number(rss) * KIBIBYTE }]
      : [];
  });
}

const nameOf = (command: string): string => command.split('/').at(-1) ?? command;

/** Such as `1-02:03:04`, or `62:03.04` on macOS. */
function secondsOf(time: string): number {
  const [days, clockTime = ''] = time.includes('-') ? time.split('-') : ['0', time];
  const seconds = clockTime.split(':').reduce((sum, part) => sum * 60 + Number(part), 0);
  return Number(days) * 86_400 + seconds;
}

const STATES: Readonly<Record<string, ProcessState>> = {
  R: 'running',
  S: 'sleeping',
  I: 'sleeping',
  U: 'waiting',
  T: 'stopped',
  Z: 'zombie',
};

const LINE =
  /^\s*(\d+)\s+(\d+)\s+([\d:.-]+)\s+(\d+)\s+(\S+)\s+(\w{3}\s+\w{3}\s+\d+\s+[\d:]{8}\s+\d{4})\s+(.*\S)/;

/** Lines such as `812 10240 62:03.04 1 Ss Sat Nov 28 09:12:44 2026 /usr/libexec/x`, whose time is that of the machine. */
export function parseIdentified(output: string): IdentifiedProcess[] {
  return output.split('\n').flatMap((line): IdentifiedProcess[] => {
    const [, pid, rss, time = '', parent, state = '', started = '', command = ''] = LINE.exec(line) ?? [];
    const startedAt = Date.parse(started.replaceAll(/\s+/g, ' '));
    const cpuSeconds = secondsOf(time);
    if (pid === undefined || !Number.isFinite(cpuSeconds)) return [];
    return [
      {
        pid: Number(pid),
        parentPid: Number(parent),
        name: nameOf(command),
        cpuSeconds,
        ramBytes: Number(rss) * KIBIBYTE,
        startedAt: Number.isNaN(startedAt) ? undefined : startedAt,
        state: STATES[state[0] ?? ''],
        ...(pid === '1' ? { isCritical: true } : {}),
      },
    ];
  });
}

/** Lines such as `812 root /usr/libexec/x --flag`. */
export function parseDetails(output: string): Map<number, ProcessDetails> {
  return new Map(
    output.split('\n').flatMap((line) => {
      const [, pid, user, command] = /^\s*(\d+)\s+(\S+)\s+(.*\S)/.exec(line) ?? [];
      return pid === undefined || user === undefined || command === undefined
        ? []
        : [[Number(pid), { user, commandLine: command }] as const];
    }),
  );
}
