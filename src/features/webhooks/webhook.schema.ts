import { z } from 'zod';
import {
  Id,
  nfcText,
  text,
  Timestamp,
  instantOrDay,
  JsonColumn,
  listOf,
  noneBefore,
} from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';
import { EventTypeName } from './event-catalogue.ts';

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

const DeliveryStatus = z.enum(['pending', 'delivered', 'failed']);

export const Delivery = z
  .object({
    id: z.uuid(),
    webhookId: z.uuid(),
    eventId: z.uuid().describe('Sent as `webhook-id`; the same in all attempts and replays.'),
    eventType: z.string(),
    eventOrgId: z.uuid().nullable().describe('Null if the event concerns the partner itself.'),
    eventAt: Timestamp,
    status: DeliveryStatus,
    isReplay: z.boolean(),
    attempts: z.number().int(),
    nextAttemptAt: Timestamp.nullable(),
    lastAttemptAt: Timestamp.nullable(),
    responseStatus: z.number().int().nullable().describe('The status of the last attempt.'),
    durationMs: z.number().int().nullable().describe('The duration of the last attempt.'),
    error: z.string().nullable().describe('Why the last attempt failed.'),
    createdAt: Timestamp,
    endedAt: Timestamp.nullable(),
  })
  .meta({ id: 'WebhookDelivery' });

export const DeliveryDetail = z
  .object({
    ...Delivery.shape,
    responseExcerpt: z
      .string()
      .nullable()
      .describe('The first 1,024 bytes of the last response. It ends with an ellipsis if there was more.'),
    data: JsonColumn.nullable().describe('The payload; null if you may not read such events yourself.'),
  })
  .meta({ id: 'WebhookDeliveryDetail' });

const from = instantOrDay('begin');
const to = instantOrDay('end');

export const DeliveryQuery = PageQuery.extend({
  status: listOf(DeliveryStatus),
  eventType: EventTypeName.optional(),
  from: from.optional().describe('Added at or after: an instant, or a day (UTC).'),
  to: to.optional().describe('Added at or before: an instant, or a day (UTC).'),
}).superRefine(noneBefore('from', 'to'));
export type DeliveryQuery = z.infer<typeof DeliveryQuery>;

export const DeliveryParams = z.object({ id: Id, deliveryId: Id });

export const Replay = z
  .strictObject({
    from: from.describe('Deliveries added at or after: an instant, or a day (UTC).'),
    to: to.describe('Deliveries added at or before: an instant, or a day (UTC).'),
    statuses: z
      .array(z.enum(['delivered', 'failed']))
      .min(1)
      .max(2)
      .optional()
      .describe('Which are sent again; only failed ones when it is left out.'),
    eventTypes: z.array(EventTypeName).min(1).max(EventTypeName.options.length).optional(),
  })
  .superRefine(noneBefore('from', 'to'));
export type Replay = z.infer<typeof Replay>;

export const ReplayAnswer = z.object({
  replayed: z.number().int().describe('Events that are sent again, each once.'),
});
