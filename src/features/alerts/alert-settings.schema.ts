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
    `How long a device may be gone before an alert is raised; null: none is. ${DEFAULT_OFFLINE_AFTER_MINUTES} unless somebody chose otherwise.`,
  );
const diskPercent = z
  .number()
  .int()
  .min(50)
  .max(100)
  .nullable()
  .describe(
    `How full a disk may be before an alert is raised; null: none is. ${DEFAULT_DISK_PERCENT} unless somebody chose otherwise.`,
  );

export const AlertSettings = z.object({ offlineAfterMinutes, diskPercent }).meta({ id: 'AlertSettings' });
export type AlertSettings = z.infer<typeof AlertSettings>;

export const AlertSettingsPatch = z.strictObject({ offlineAfterMinutes, diskPercent }).partial();
export type AlertSettingsPatch = z.infer<typeof AlertSettingsPatch>;
