import { z } from 'zod';

export const DEFAULT_OFFLINE_AFTER_MINUTES = 30;
export const DEFAULT_DISK_PERCENT = 90;

const offlineAfterMinutes = z
  .number()
  .int()
  .min(1)
  .max(43_200)
  .nullable()
  .describe(
    `How many minutes a device may be offline before an alert is raised; null disables these alerts. Default: ${DEFAULT_OFFLINE_AFTER_MINUTES}.`,
  );
const diskPercent = z
  .number()
  .int()
  .min(50)
  .max(100)
  .nullable()
  .describe(
    `How full a disk may be, in percent, before an alert is raised; null disables these alerts. Default: ${DEFAULT_DISK_PERCENT}.`,
  );

export const AlertSettings = z.object({ offlineAfterMinutes, diskPercent }).meta({ id: 'AlertSettings' });
export type AlertSettings = z.infer<typeof AlertSettings>;

export const AlertSettingsPatch = z.strictObject({ offlineAfterMinutes, diskPercent }).partial();
export type AlertSettingsPatch = z.infer<typeof AlertSettingsPatch>;
