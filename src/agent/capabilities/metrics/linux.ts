import { percent } from '../../os/machine.ts';
import type { MachineReader, MachineReading } from './machine-reading.ts';
import { LINUX_PROCESSES } from '../../os/processes/linux.ts';
import { volumes } from './unix.ts';

/** What passes through these interfaces also passes through another one, or does not leave the machine. */
const INNER_INTERFACE = /^(lo|veth|docker|br-|virbr|vnet|ifb|dummy|cni|flannel|cali|tap|tun|wg|bond)/;
/** Whole disks; what passes through partitions and mapped devices passes through these. */
const DISK = /^(sd[a-z]+|hd[a-z]+|vd[a-z]+|xvd[a-z]+|nvme\d+n\d+|mmcblk\d+)$/;
const SECTOR_BYTES = 512;

export const readLinux: MachineReader = async (sources, reading) => {
  const [network, disks, memory] = await Promise.all(
    ['/proc/net/dev', '/proc/diskstats', '/proc/meminfo'].map((file) =>
      reading.from(file, () => sources.file(file)),
    ),
  );
  return {
    counters: { ...networkBytes(network ?? ''), ...diskBytes(disks ?? '') },
    swapPercent: swapPercent(memory ?? ''),
    // In a container, the root is no device.
    volumes: await reading.from('df', () =>
      volumes(sources, (device, folder) => folder === '/' || /^\/dev\/(?!loop)/.test(device)),
    ),
    processes: await reading.from('/proc', () => LINUX_PROCESSES.read(sources)),
  };
};

/** @param table  `/proc/net/dev` */
export function networkBytes(table: string): MachineReading['counters'] {
  const rows = table.split('\n').flatMap((line) => {
    const [, name = '', rest] = /^\s*([^:\s]+):\s*(.+)$/.exec(line) ?? [];
    if (rest === undefined || INNER_INTERFACE.test(name)) return [];
    const fields = rest.trim().split(/\s+/).map(Number);
    return [{ received: fields[0] ?? 0, sent: fields[8] ?? 0 }];
  });
  if (rows.length === 0) return {};
  return {
    networkReceived: rows.reduce((sum, { received }) => sum + received, 0),
    networkSent: rows.reduce((sum, { sent }) => sum + sent, 0),
  };
}

/** @param table  `/proc/diskstats` */
export function diskBytes(table: string): MachineReading['counters'] {
  const rows = table
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , name = '']) => DISK.test(name));
  if (rows.length === 0) return {};
  const sum = (field: number) =>
    rows.reduce((total, row) => total + Number(row[field] ?? 0), 0) * SECTOR_BYTES;
  return { diskRead: sum(5), diskWritten: sum(9) };
}

/** `undefined` on a machine without swap. @param table  `/proc/meminfo` */
export function swapPercent(table: string): number | undefined {
  const [total, free] = ['SwapTotal', 'SwapFree'].map((name) =>
    Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(table)?.[1] ?? Number.NaN),
  );
  if (total === undefined || free === undefined || !(total > 0) || Number.isNaN(free)) return undefined;
  return percent(1 - free / total);
}
