import { z } from 'zod';
import { ClockTime, TimeZone } from '../../../platform/http/fields.ts';

const HOURLY_TIME = 'With `hourly` only the minutes count.';

const fields = z.strictObject({
  frequency: z.enum(['hourly', 'daily', 'weekly', 'monthly']),
  time: ClockTime.optional().describe(`Default: \`windowStart\`, else 00:00. ${HOURLY_TIME}`),
  timezone: TimeZone.optional().describe('Default: the time zone of the device’s site.'),
  dayOfWeek: z.number().int().min(0).max(6).optional().describe('With `weekly`; 0 is Sunday.'),
  dayOfMonth: z
    .union([z.number().int().min(1).max(28), z.literal('last')])
    .optional()
    .describe('With `monthly`.'),
  windowStart: ClockTime.optional().describe('Backups begin within the window only.'),
  windowEnd: ClockTime.optional().describe('On the next day where it lies before `windowStart`.'),
});
type Fields = z.infer<typeof fields>;

/** When a configuration is due. */
export const BackupSchedule = fields
  .superRefine((schedule, context) => {
    for (const [field, message] of faultsOf(schedule)) {
      context.addIssue({ code: 'custom', path: [field], message });
    }
  })
  .meta({ id: 'BackupSchedule' });
export type BackupSchedule = z.infer<typeof BackupSchedule>;

function* faultsOf(schedule: Fields): Generator<[keyof Fields, string]> {
  const { frequency, time, dayOfWeek, dayOfMonth, windowStart, windowEnd } = schedule;
  if (frequency === 'weekly' && dayOfWeek === undefined) yield ['dayOfWeek', 'is required with weekly'];
  if (frequency !== 'weekly' && dayOfWeek !== undefined) yield ['dayOfWeek', 'is for weekly only'];
  if (frequency === 'monthly' && dayOfMonth === undefined) yield ['dayOfMonth', 'is required with monthly'];
  if (frequency !== 'monthly' && dayOfMonth !== undefined) yield ['dayOfMonth', 'is for monthly only'];
  if (windowStart === undefined && windowEnd !== undefined) {
    yield ['windowStart', 'is required with windowEnd'];
  } else if (windowStart !== undefined && windowEnd === undefined) {
    yield ['windowEnd', 'is required with windowStart'];
  } else if (windowStart !== undefined && windowEnd !== undefined) {
    const isInside = frequency === 'hourly' || time === undefined || isWithin(time, windowStart, windowEnd);
    if (windowStart === windowEnd) yield ['windowEnd', 'must differ from windowStart'];
    else if (!isInside) yield ['time', 'must lie within the window'];
  }
}

/** Of times as `ClockTime` writes them, which sort as text. */
export const isWithin = (time: string, start: string, end: string): boolean =>
  start < end ? time >= start && time < end : time >= start || time < end;
