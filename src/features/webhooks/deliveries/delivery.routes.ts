import { everyScope } from '../../../platform/http/access.ts';
import { auditSubject } from '../../../platform/http/audit.ts';
import { IdParams } from '../../../platform/http/fields.ts';
import { pageOf } from '../../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../../platform/http/route.ts';
import {
  Delivery,
  DeliveryDetail,
  DeliveryParams,
  DeliveryQuery,
  Replay,
  ReplayAnswer,
} from './delivery.schema.ts';
import { listDeliveries, readDelivery, replayDeliveries, replayDelivery } from './delivery.service.ts';

export const deliveryRoutes: RouteGroup = {
  name: 'Webhook deliveries',
  description:
    'The log of what was sent to webhooks. It is kept for 14 days. An addition to the specification.',
  routes: [
    route({
      method: 'get',
      path: '/webhooks/:id/deliveries',
      summary: 'List the deliveries of a webhook, newest first',
      access: everyScope('webhooks:read'),
      params: IdParams,
      query: DeliveryQuery,
      response: pageOf(Delivery),
      handler: ({ ctx, params, query }) => listDeliveries(ctx, params.id, query),
    }),
    route({
      method: 'get',
      path: '/webhooks/:id/deliveries/:deliveryId',
      summary: 'Read a delivery with its event and response',
      access: everyScope('webhooks:read'),
      params: DeliveryParams,
      response: DeliveryDetail,
      handler: ({ ctx, params }) => readDelivery(ctx, params.id, params.deliveryId),
    }),
    route({
      method: 'post',
      path: '/webhooks/:id/deliveries/:deliveryId/replay',
      summary: 'Send the event of a delivery again',
      description: 'The `webhook-id` stays the same.',
      access: everyScope('webhooks:write'),
      params: DeliveryParams,
      response: Delivery,
      status: 202,
      idempotent: true,
      errors: ['conflict', 'tenant_inactive'],
      handler: async ({ ctx, params }) => {
        const { webhook, delivery } = await replayDelivery(ctx, params.id, params.deliveryId);
        return Object.assign(delivery, { webhook });
      },
      audit: {
        action: 'webhook.replay',
        resource: 'webhook',
        note: ({ webhook, eventId }) => ({ ...auditSubject(webhook), details: { eventId } }),
      },
    }),
    route({
      method: 'post',
      path: '/webhooks/:id/replay',
      summary: 'Send the events of a span of time again',
      description: 'At most 10,000 events, each once. The `webhook-id` of each stays the same.',
      access: everyScope('webhooks:write'),
      params: IdParams,
      body: Replay,
      response: ReplayAnswer,
      status: 202,
      idempotent: true,
      errors: ['conflict', 'limit_reached', 'tenant_inactive'],
      handler: ({ ctx, params, body }) => replayDeliveries(ctx, params.id, body),
      audit: {
        action: 'webhook.replay',
        resource: 'webhook',
        note: ({ webhook, replayed }, { body: { from, to } }) => ({
          ...auditSubject(webhook),
          details: { from: from.toISOString(), to: to.toISOString(), replayed },
        }),
      },
    }),
  ],
};
