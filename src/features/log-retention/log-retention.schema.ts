import { z } from 'zod';

export const DEFAULT_DIAGNOSTIC_DAYS = 30;
export const DEFAULT_EVENT_DAYS = 90;
export const DEFAULT_COMMAND_DAYS = 90;
export const DEFAULT_ALERT_DAYS = 365;

const days = (of: string, byDefault: number) =>
  z
    .number()
    .int()
    .min(1)
    .max(3650)
    .describe(`For how many days ${of} are kept. ${byDefault} unless set otherwise.`);

export const WhenFull = z.enum(['refuse', 'remove_oldest']);
export type WhenFull = z.infer<typeof WhenFull>;
export const DEFAULT_WHEN_FULL: WhenFull = 'refuse';

export const LogRetention = z.strictObject({
  diagnosticDays: days('lines of agents’ own logs', DEFAULT_DIAGNOSTIC_DAYS),
  eventDays: days('stored events', DEFAULT_EVENT_DAYS),
  commandDays: days('ended commands, with their payload and output,', DEFAULT_COMMAND_DAYS),
  alertDays: days('resolved alerts', DEFAULT_ALERT_DAYS),
  whenFull: WhenFull.describe(
    'What happens when the stored logs of the organization reach their budget in total: new logs are refused, or the oldest are removed by whole days of arrival. `refuse` unless set otherwise.',
  ),
});
export type LogRetention = z.infer<typeof LogRetention>;

/** Clients that know of logs alone may leave the others out; what is left out stays as it is. */
export const LogRetentionChange = LogRetention.partial({
  commandDays: true,
  alertDays: true,
  whenFull: true,
});
export type LogRetentionChange = z.infer<typeof LogRetentionChange>;
