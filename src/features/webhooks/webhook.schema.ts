import { z } from 'zod';
import { Id, nfcText, text, Timestamp } from '../../../platform/http/fields.ts';
import { PageQuery } from '../../../platform/http/pagination.ts';
import { EventTypeName } from '../events/catalogue.ts';

export const WebhookStatus = z.enum(['active', 'failing', 'paused', 'disabled', 'disabled_by_server']);
export type WebhookStatus = z.infer<typeof WebhookStatus>;

export const Webhook = z
  .object({
    id: z.uuid(),
    orgId: z.uuid().nullable().describe('Null: it receives the events of all organizations of the partner.'),
    partnerId: z.uuid(),
    name: z.string(),
    url: z.string(),
    eventTypes: z.array(EventTypeName),
    enabled: z.boolean(),
    status: WebhookStatus.describe(
      '`failing`: the last attempt failed. `paused`: the server waits before it tries again. `disabled_by_server`: see disabledReason.',
    ),
    disabledReason: z
      .enum(['gone', 'failing'])
      .nullable()
      .describe(
        'Why the server disabled it. `gone`: the receiver answered 410. `failing`: no delivery succeeded for 3 days.',
      ),
    failures: z.number().int().describe('Attempts that failed since the last one that succeeded.'),
    failingSince: Timestamp.nullable(),
    lastSuccessAt: Timestamp.nullable(),
    previousSecretUntil: Timestamp.nullable().describe('Until then the previous secret signs as well.'),
    createdBy: z.uuid().nullable(),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  })
  .meta({ id: 'Webhook' });

/** The secret is shown in this answer only. */
export const WebhookWithSecret = z.object({
  ...Webhook.shape,
  secret: z.string().describe('It begins with whsec_, and is returned only once.'),
});

const fields = {
  name: nfcText(200),
  url: text(2048).describe('https only, with a public address.'),
  eventTypes: z
    .array(EventTypeName)
    .min(1)
    .max(EventTypeName.options.length)
    .transform((list) => [...new Set(list)]),
  enabled: z.boolean(),
};

export const NewWebhook = z.strictObject({
  ...fields,
  enabled: fields.enabled.optional().describe('Default true.'),
  orgId: Id.optional().describe('Leave it out in partner scope for the events of all organizations.'),
});
export type NewWebhook = z.infer<typeof NewWebhook>;

export const WebhookPatch = z.strictObject(fields).partial();
export type WebhookPatch = z.infer<typeof WebhookPatch>;

export const WebhookQuery = PageQuery.extend({
  orgId: Id.optional().describe('Only webhooks of this organization.'),
});
export type WebhookQuery = z.infer<typeof WebhookQuery>;

const LONGEST_OVERLAP_HOURS = 168;

export const Rotation = z.strictObject({
  overlapHours: z
    .number()
    .int()
    .min(0)
    .max(LONGEST_OVERLAP_HOURS)
    .optional()
    .describe('How long the old secret signs as well; 24 when it is left out.'),
});
export type Rotation = z.infer<typeof Rotation>;

export const EventTypeInfo = z
  .object({
    name: EventTypeName,
    description: z.string(),
    permission: z.string().describe('A person who subscribes to it must hold this.'),
    isOfPartner: z.boolean().describe('Only webhooks of partners can have it.'),
  })
  .meta({ id: 'WebhookEventType' });

export const TestOutcome = z
  .object({
    ok: z.boolean(),
    responseStatus: z.number().int().nullable(),
    responseExcerpt: z.string().nullable(),
    durationMs: z.number().int(),
    error: z.string().nullable(),
  })
  .meta({ id: 'WebhookTest' });
