import type { Sources } from '../../os/machine-sources.ts';
import type { MachineReading } from './machine-reading.ts';

/** What Linux and macOS have in common: `df`. */

const PROGRAM_MS = 15_000;
const KIBIBYTE = 1024;

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
