import { MACHINE_PATH } from '../../../engine/index.ts';
import { defineSource } from './source-work.ts';

/** Whole disks (docs/decisions/machine-images.md). */
export const image = defineSource('image', {
  command: 'backup.image',
  backupType: 'system_image',
  systems: () => ['linux'],
  refusal: (osType) => `Images of whole disks can be made on Linux, and not on ${osType} yet.`,
  toCommand: (_tx, { sources, shared }) => ({
    type: 'backup.image',
    payload: { ...shared, disks: sources.disks, excludeDisks: sources.excludeDisks ?? [] },
  }),
  pathsOf: () => [MACHINE_PATH],
});
