import { lazy } from 'react';

export { backupPages } from './backup.pages.ts';
export { KeySelect } from './keys/key-select.tsx';
export { DeviceLink, DeviceSelect, useDeviceName } from './parts/device-names.tsx';
export { FactTable } from './parts/facts.tsx';
export { Cause } from './parts/faults.tsx';
export { timeZone } from './parts/local-time.ts';
export { OrganizationSelect, useFirstOrganization } from './parts/organization-select.tsx';
export { ScheduleFields } from './schedule/schedule-fields.tsx';
export { scheduleFormOf, scheduleOf, scheduleText, type ScheduleForm } from './schedule/schedule-form.ts';

/** The state of backups of a device. It is loaded when it is first shown. */
export const DeviceBackup = lazy(async () => ({
  default: (await import('./device/device-backup.tsx')).DeviceBackup,
}));
