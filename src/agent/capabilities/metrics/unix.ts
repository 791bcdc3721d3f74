import type { Sources } from '../../os/machine-sources.ts';
import type { MachineReading, RunningProcess } from './machine-reading.ts';

/** What Linux and macOS have in common: `ps` and `df`. */

const PROGRAM_MS = 15_000;
const KIBIBYTE = 1024;

export const runningProcesses = async (sources: Sources): Promise<RunningProcess[] | undefined> => {
  const output = await sources.output('ps', ['-A', '-o', 'pid=,rss=,time=,comm='], PROGRAM_MS);
  return output === undefined ? undefined : parseProcesses(output);
};

/** Lines such as `812 10240 1-02:03:04 postgres`, on macOS `812 10240 62:03.04 /usr/libexec/x`. */
export function parseProcesses(output: string): RunningProcess[] {
  return output.split('\n').flatMap((line) => {
    const [, pid, rss, time = '', command = ''] = /^\s*(\d+)\s+(\d+)\s+([\d:.-]+)\s+(.*\S)/.exec(line) ?? [];
    if (pid === undefined) return [];
    const name = command.split('/').at(-1) ?? command;
    const [days, clockTime = ''] = time.includes('-') ? time.split('-') : ['0', time];
    const seconds = clockTime.split(':').reduce((sum, part) => sum * 60 + Number(part), 0);
    const cpuSeconds = Number(days) * 86_400 + seconds;
    return Number.isFinite(cpuSeconds)
      ? [{ pid: Number(pid), name, cpuSeconds, ramBytes: Number(rss) * KIBIBYTE }]
      : [];
  });
}

/** Of local file systems only, so that a file server that is gone keeps nobody waiting. */
export const volumes = async (
  sources: Sources,
  isVolume: (device: string, mountedOn: string) => boolean,
): Promise<MachineReading['volumes']> => {
  const output = await sources.output('df', ['-k', '-P', '-l'], PROGRAM_MS);
  return output === undefined ? undefined : parseVolumes(output, isVolume);
};

/** Lines such as `/dev/sda1 102400 51200 46080 53% /home`. The first folder of a device counts. */
export function parseVolumes(
  output: string,
  isVolume: (device: string, mountedOn: string) => boolean,
): NonNullable<MachineReading['volumes']> {
  const known = new Set<string>();
  return output.split('\n').flatMap((line) => {
    const [, device = '', total, used, mountedOn = ''] =
      /^(\S.*?)\s+(\d+)\s+(\d+)\s+-?\d+\s+\S+\s+(\/.*)$/.exec(line) ?? [];
    const isKnown = total === undefined || Number(total) === 0 || known.has(device);
    if (isKnown || !isVolume(device, mountedOn)) return [];
    known.add(device);
    return [{ volume: mountedOn, usedBytes: Number(used) * KIBIBYTE, totalBytes: Number(total) * KIBIBYTE }];
  });
}
