import { z } from 'zod';
import { EmailAddress } from '../../email-address.ts';
import { ClockTime, Id, nfcText, Timestamp, TimeZone } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';

const USERS_MAX = 50;
const ADDRESSES_MAX = 20;

const fields = {
  name: nfcText(100),
  dayOfMonth: z.number().int().min(1).max(28).describe('1 to 28, which every month has.'),
  time: ClockTime,
  timezone: TimeZone,
  userIds: z
    .array(Id)
    .max(USERS_MAX)
    .describe('People, who are mailed at the address that they have then, while they are members.'),
  addresses: z.array(EmailAddress).max(ADDRESSES_MAX).describe('Further addresses.'),
};

export const ReportSchedule = z
  .object({
    id: z.uuid(),
    orgId: z.uuid().nullable().describe('Null: a report for each organization of the partner.'),
    partnerId: z.uuid(),
    name: z.string(),
    dayOfMonth: z.number().int(),
    time: z.string(),
    timezone: z.string(),
    userIds: z.array(z.uuid()),
    addresses: z.array(z.string()),
    setUpBy: z
      .object({ id: z.uuid(), name: z.string() })
      .nullable()
      .describe(
        'The person who saved it last, by whose rights it is made; null if that is not known any more.',
      ),
    isPaused: z.boolean(),
    pausedBecause: z.string().nullable().describe('Why the server has paused it.'),
    dueAt: Timestamp.nullable().describe('When it is mailed next; null while it is paused.'),
    lastDueAt: Timestamp.nullable(),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  })
  .meta({ id: 'ReportSchedule' });
export type ReportScheduleResponse = z.input<typeof ReportSchedule>;

export const NewReportSchedule = z.strictObject({
  ...fields,
  orgId: Id.optional().describe('Leave it out in partner scope for all organizations.'),
});
export type NewReportSchedule = z.infer<typeof NewReportSchedule>;

export const ReportSchedulePatch = z
  .strictObject({ ...fields, isPaused: z.boolean() })
  .partial()
  .describe('From then on it is made by the rights of the caller.');
export type ReportSchedulePatch = z.infer<typeof ReportSchedulePatch>;

export const ReportScheduleQuery = PageQuery.extend({
  orgId: Id.optional().describe('Only those of this organization and of its partner.'),
});
export type ReportScheduleQuery = z.infer<typeof ReportScheduleQuery>;
