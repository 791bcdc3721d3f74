import { lazy } from 'react';

export { backupPages } from './backup.pages.ts';

/** The state of backups of a device. It is loaded when it is first shown. */
export const DeviceBackup = lazy(async () => ({
  default: (await import('./device/device-backup.tsx')).DeviceBackup,
}));
