import { MACHINE_PATH } from '../../../engine/index.ts';
import { defineSource } from './source-work.ts';

/** Machines that devices have made of snapshots (docs/decisions/disaster-recovery.md). */
export const restored = defineSource('restored', {
  command: 'backup.vm-save',
  backupType: 'system_image',
  systems: () => ['linux'],
  refusal: (osType) => `Snapshots become machines on Linux, and not on ${osType}.`,
  toCommand: (_tx, { sources: { vmRestoreId: restoreId }, shared }) => ({
    type: 'backup.vm-save',
    payload: { ...shared, restoreId },
  }),
  pathsOf: () => [MACHINE_PATH],
});
