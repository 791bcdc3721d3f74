import { z } from 'zod';
import { EmailAddress } from '../../email-address.ts';
import { Id, instantOrDay, listOf, noneBefore, text, Timestamp } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';
import { AlertSeverity } from '../alerts/index.ts';
import { WeeklyHours } from './policy.schema.ts';

export const NotificationReason = z.enum([
  'raised',
  'escalated',
  'repeated',
  'acknowledged',
  'resolved',
  'test',
]);
export type NotificationReason = z.infer<typeof NotificationReason>;

export const NotificationStatus = z.enum(['pending', 'sent', 'failed', 'suppressed']);
export type NotificationStatus = z.infer<typeof NotificationStatus>;

const Uuid = z.uuid();

/** One message to one recipient. */
export const Notification = z
  .object({
    id: Uuid.describe('Also the id of the work that sends it. Webhooks get it as `webhook-id`.'),
    orgId: Uuid.describe('The organization of its alerts, or of the channel that was tested.'),
    partnerId: Uuid,
    groupId: Uuid.nullable().describe('The same for all messages of one conversation.'),
    policyId: Uuid.nullable().describe('It may have been deleted since. Null for a test.'),
    step: z
      .number()
      .int()
      .nullable()
      .describe('The step of the policy that told this recipient; the first is 1.'),
    reason: NotificationReason,
    status: NotificationStatus,
    channelId: Uuid.nullable().describe('It may have been deleted since. Null for a person.'),
    userId: Uuid.nullable().describe('Null for a channel, and if the account was deleted.'),
    recipient: z.string().describe('The name of the channel or person at that time.'),
    title: z.string(),
    severity: AlertSeverity,
    alertCount: z.number().int(),
    alertId: Uuid.nullable().describe('The alert, if the message is about one; otherwise the first of them.'),
    attempts: z.number().int(),
    error: z.string().nullable().describe('Why it was not sent, or was suppressed.'),
    createdAt: Timestamp,
    sentAt: Timestamp.nullable(),
  })
  .meta({ id: 'Notification' });

export const NotificationQuery = PageQuery.extend({
  alertId: Id.optional().describe('Messages about this alert.'),
  channelId: Id.optional(),
  userId: Id.optional(),
  orgId: Id.optional(),
  status: listOf(NotificationStatus),
  from: instantOrDay('begin').optional().describe('Added at or after: an instant, or a day (UTC).'),
  to: instantOrDay('end').optional().describe('Added at or before: an instant, or a day (UTC).'),
}).superRefine(noneBefore('from', 'to'));
export type NotificationQuery = z.infer<typeof NotificationQuery>;

const settings = {
  address: EmailAddress.nullable().describe(
    'Where you are told; null: at the address of your account. A code is mailed to an address that is new.',
  ),
  phone: text(50)
    .regex(/^\+?[\d ()./-]+$/, 'must be a telephone number')
    .nullable()
    .describe('For those who look after the alerts; nothing is sent to it.'),
  quietHours: WeeklyHours.nullable().describe('Nothing is sent then.'),
  criticalBreaksQuietHours: z.boolean().describe('Critical alerts are sent in quiet hours as well.'),
  severities: z
    .array(AlertSeverity)
    .min(1)
    .max(5)
    .transform((list) => [...new Set(list)])
    .nullable()
    .describe('Only alerts of these are sent; null: of all.'),
};

/** What a person wants to be told, wherever a policy names them. */
export const NotificationSettings = z
  .object({
    ...settings,
    address: z.string().nullable(),
    addressVerified: z
      .boolean()
      .describe(
        'Whether you have given back the code that was mailed to `address`. Until then you are told at the address of your account.',
      ),
    phone: z.string().nullable(),
    severities: z.array(AlertSeverity).nullable(),
  })
  .meta({ id: 'NotificationSettings' });
export type NotificationSettings = z.infer<typeof NotificationSettings>;

export const ADDRESS_CODE = { digits: 8, hours: 24 };

export const AddressCode = z.strictObject({
  code: z
    .string()
    .transform((code) => code.replaceAll(/[\s-]/g, ''))
    .pipe(
      z
        .string()
        .regex(new RegExp(`^\\d{${ADDRESS_CODE.digits}}$`), `must have ${ADDRESS_CODE.digits} digits`),
    )
    .describe(`The code of the mail, which counts for ${ADDRESS_CODE.hours} hours.`),
});
export type AddressCode = z.infer<typeof AddressCode>;

export const NotificationSettingsPatch = z.strictObject(settings).partial();
export type NotificationSettingsPatch = z.infer<typeof NotificationSettingsPatch>;
