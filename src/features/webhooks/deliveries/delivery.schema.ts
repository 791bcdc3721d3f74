import { z } from 'zod';
import {
  Id,
  instantOrDay,
  JsonColumn,
  listOf,
  noneBefore,
  Timestamp,
} from '../../../platform/http/fields.ts';
import { PageQuery } from '../../../platform/http/pagination.ts';
import { EventTypeName } from '../events/catalogue.ts';

export const DeliveryStatus = z.enum(['pending', 'delivered', 'failed']);

export const Delivery = z
  .object({
    id: z.uuid(),
    webhookId: z.uuid(),
    eventId: z.uuid().describe('Sent as `webhook-id`; the same in all attempts and replays.'),
    eventType: z.string(),
    eventOrgId: z.uuid().nullable().describe('Null where the event concerns the partner itself.'),
    eventAt: Timestamp,
    status: DeliveryStatus,
    isReplay: z.boolean(),
    attempts: z.number().int(),
    nextAttemptAt: Timestamp.nullable(),
    lastAttemptAt: Timestamp.nullable(),
    responseStatus: z.number().int().nullable().describe('Of the last attempt.'),
    durationMs: z.number().int().nullable().describe('Of the last attempt.'),
    error: z.string().nullable().describe('Why the last attempt failed.'),
    createdAt: Timestamp,
    endedAt: Timestamp.nullable(),
  })
  .meta({ id: 'WebhookDelivery' });

export const DeliveryDetail = z
  .object({
    ...Delivery.shape,
    responseExcerpt: z.string().nullable().describe('The first 1,024 bytes of the last response.'),
    data: JsonColumn.nullable().describe('What was sent; null where you may not read such events yourself.'),
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
