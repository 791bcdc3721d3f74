import type { MachineDescription } from './description.ts';
import type { OpenedMachine } from './read-machine.ts';

interface FoundVolume {
  /** In the archive of the machine. */
  offset: number;
  sizeBytes: number;
}

/** Where a volume of a machine lies; otherwise what does not exist, and what there is instead. */
export function findVolume(
  { description, disks }: OpenedMachine,
  { disk, partition = null }: { disk: string; partition?: number | null | undefined },
): { volume: FoundVolume } | { missing: 'disk' | 'partition'; known: string } {
  const place = disks.find(({ name }) => name === disk);
  const described = description.disks.find(({ name }) => name === disk);
  if (place === undefined || described === undefined) {
    return { missing: 'disk', known: disks.map(({ name }) => name).join(', ') };
  }
  const volume = described.volumes.find((each) => each.partition === partition);
  // The description is the word of a device: a volume never reaches beyond its disk.
  if (volume === undefined || volume.offset + volume.sizeBytes > place.sizeBytes) {
    return { missing: 'partition', known: partitionsOf(described) };
  }
  return { volume: { offset: place.offset + volume.offset, sizeBytes: volume.sizeBytes } };
}

const partitionsOf = ({ volumes }: MachineDescription['disks'][number]): string =>
  volumes.map(({ partition, type }) => `${partition ?? 'none'} (${type})`).join(', ');
