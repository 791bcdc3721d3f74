export { backupPages, DeviceBackup } from './backup.pages.ts';
export {
  ScheduleFields,
  scheduleFormOf,
  scheduleOf,
  scheduleText,
  timeZone,
  type ScheduleForm,
} from './schedule.tsx';
export {
  DeviceLink,
  DeviceSelect,
  KeySelect,
  useDeviceName,
} from './selects.tsx';
