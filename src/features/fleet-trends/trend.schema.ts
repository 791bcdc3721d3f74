import { z } from 'zod';
import { Id, Timestamp, wholeNumber } from '../../platform/http/fields.ts';

export const KEPT_DAYS = 400;

const count = z.number().int();

export const TrendDay = z
  .object({
    day: z.iso.date().describe('A day of UTC. The last one goes on.'),
    devices: count.describe('Devices in service at the last count of the day.'),
    devicesConnected: count.describe(
      'The most devices that were connected at one of the hourly counts, of each organization.',
    ),
    alertsOpen: count.nullable().describe('Alerts that were not resolved at the last count of the day.'),
    alertsRaised: count.nullable(),
    backupsCompleted: count.nullable().describe('Backups of devices that ended with a snapshot.'),
    backupsFailed: count.nullable(),
  })
  .meta({ id: 'TrendDay' });

export const FleetTrends = z
  .object({
    data: z
      .array(TrendDay)
      .describe(
        'Days without a count are left out, such as those before the first count of an organization.',
      ),
    countedAt: Timestamp.nullable().describe('When was last counted; null if that has not happened yet.'),
  })
  .meta({ id: 'FleetTrends' });
export type FleetTrends = z.input<typeof FleetTrends>;

export const TrendQuery = z.object({
  orgId: Id.optional(),
  days: wholeNumber(30, 2, KEPT_DAYS).meta({
    type: 'string',
    description: `How many days back, today included. Default 30, at most ${KEPT_DAYS}.`,
  }),
});
export type TrendQuery = z.infer<typeof TrendQuery>;
