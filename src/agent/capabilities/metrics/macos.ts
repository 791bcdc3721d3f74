import { percent } from '../../os/machine.ts';
import type { MachineReader, MachineReading } from './machine-reading.ts';
import { busyProcesses } from '../../os/processes/macos.ts';
import { volumes } from './unix.ts';

const PROGRAM_MS = 15_000;

export const readMacos: MachineReader = async (sources, reading) => {
  const output = (program: string, args: readonly string[]) =>
    reading.from(program, () => sources.output(program, args, PROGRAM_MS));
  const network = await output('netstat', ['-ibn']);
  const disks = await output('ioreg', ['-c', 'IOBlockStorageDriver', '-r', '-w', '0']);
  const swap = await output('sysctl', ['-n', 'vm.swapusage']);
  return {
    counters: { ...networkBytes(network ?? ''), ...diskBytes(disks ?? '') },
    swapPercent: swapPercent(swap ?? ''),
    // The other volumes of the system share the space of its data.
    volumes: await reading.from('df', () =>
      volumes(
        sources,
        (device, folder) =>
          device.startsWith('/dev/') &&
          (folder === '/' || folder === '/System/Volumes/Data' || folder.startsWith('/Volumes/')),
      ),
    ),
    processes: await reading.from('ps', () => busyProcesses(sources)),
  };
};

/**
 * The lines of the links themselves, one for each interface. Some have no address, so that fields count from the end:
 * received bytes, packets, errors, sent bytes, collisions.
 */
export function networkBytes(output: string): MachineReading['counters'] {
  const rows = output
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([name = '', , link = '']) => /^en\d/.test(name) && link.startsWith('<Link#'));
  if (rows.length === 0) return {};
  const sum = (fromTheEnd: number) => rows.reduce((total, row) => total + Number(row.at(fromTheEnd) ?? 0), 0);
  return { networkReceived: sum(-5), networkSent: sum(-2) };
}

/** The statistics of each disk, such as `"Bytes (Read)"=1024,"Bytes (Write)"=512`. */
export function diskBytes(output: string): MachineReading['counters'] {
  const sum = (name: string) => {
    const found = [...output.matchAll(new RegExp(String.raw`"Bytes \(${name}\)"=(\d+)`, 'g'))];
    return found.length === 0 ? undefined : found.reduce((total, [, bytes]) => total + Number(bytes), 0);
  };
  return { diskRead: sum('Read'), diskWritten: sum('Write') };
}

/** `total = 2048.00M  used = 512.00M  free = 1536.00M  (encrypted)` */
export function swapPercent(output: string): number | undefined {
  const [, total, used] = /total = ([\d.]+)M\s+used = ([\d.]+)M/.exec(output.replaceAll(',', '.')) ?? [];
  return Number(total) > 0 ? percent(Number(used) / Number(total)) : undefined;
}
