import { z } from 'zod';

export const DEFAULT_DIAGNOSTIC_DAYS = 30;
export const DEFAULT_EVENT_DAYS = 90;

const days = z.number().int().min(1).max(3650);

export const LogRetention = z.strictObject({
  diagnosticDays: days.describe(
    `Of lines of agents’ own logs. ${DEFAULT_DIAGNOSTIC_DAYS} unless somebody chose otherwise.`,
  ),
  eventDays: days.describe(`Of stored events. ${DEFAULT_EVENT_DAYS} unless somebody chose otherwise.`),
});
export type LogRetention = z.infer<typeof LogRetention>;
