import { AppError } from '../../../platform/errors.ts';
import type { ImageDetails } from '../../../protocol/index.ts';
import type { BackupSnapshot } from '../snapshots/snapshot.model.ts';

/** What a machine needs, by what its snapshot says. A device has written that, so it decides within bounds only. */

const MIB = 1024 ** 2;
const GIB = 1024 ** 3;
/** Of a machine that names nothing, and the least and most that is taken over without being asked for. */
const MEMORY_MIB = { usual: 2048, least: 512, most: 16_384 } as const;
const PROCESSORS = { usual: 2, most: 8 } as const;

/** Throws `conflict` for a snapshot that is not one of a whole machine. */
export function imageOf({ details }: Pick<BackupSnapshot, 'details'>): ImageDetails {
  if (details?.kind === 'image' && details.disks.length > 0) return details;
  throw new AppError(
    'conflict',
    'The snapshot is not one of a whole machine, so no virtual machine can be made of it.',
  );
}

export function specsOf({ memoryBytes, processors }: ImageDetails): { memoryMb: number; cpuCount: number } {
  const memory = memoryBytes === null ? MEMORY_MIB.usual : Math.round(memoryBytes / MIB);
  return {
    memoryMb: Math.min(MEMORY_MIB.most, Math.max(MEMORY_MIB.least, memory)),
    cpuCount: Math.min(PROCESSORS.most, Math.max(1, processors ?? PROCESSORS.usual)),
  };
}

export function estimateOf(image: ImageDetails, { sizeBytes }: Pick<BackupSnapshot, 'sizeBytes'>) {
  const bytes = image.disks.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  const { system } = image;
  return {
    ...specsOf(image),
    diskSizeGb: Math.ceil(bytes / GIB),
    platform: platformOf(system),
    osVersion: system,
    bootMode: image.bootMode,
    disks: image.disks.map(({ name, sizeBytes }) => ({ name, sizeBytes })),
    consistency: image.consistency,
    storedBytes: sizeBytes === null ? null : Number(sizeBytes),
  };
}

function platformOf(system: string | null): 'linux' | 'windows' | null {
  if (system === null || system === '') return null;
  return /windows/i.test(system) ? 'windows' : 'linux';
}
