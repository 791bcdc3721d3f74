import { z } from 'zod';
import { invalid } from '../../platform/errors.ts';
import { everyScope } from '../../platform/http/authentication.ts';
import { auditSubject } from '../../platform/http/audit.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import type { GuardedFetch } from '../../platform/outbound/guarded-fetch.ts';
import { OutboundError } from '../../platform/outbound/outbound-error.ts';
import {
  listDeliveries,
  readDelivery,
  replayDeliveries,
  replayDelivery,
  type TestParts,
  testWebhook,
  createWebhook,
  deleteWebhook,
  findWebhook,
  listWebhooks,
  recordedUrl,
  rotateSecret,
  toWebhookResponse,
  updateWebhook,
} from './webhook.service.ts';
import { EVENT_TYPES, EventTypeName } from './event-catalogue.ts';
import {
  EventTypeInfo,
  NewWebhook,
  Rotation,
  TestOutcome,
  Webhook,
  WebhookPatch,
  WebhookQuery,
  WebhookWithSecret,
  Delivery,
  DeliveryDetail,
  DeliveryParams,
  DeliveryQuery,
  Replay,
  ReplayAnswer,
} from './webhook.schema.ts';

export interface WebhookRouteParts extends TestParts {
  webhookFetch: GuardedFetch;
}

const eventTypes = EventTypeName.options.map((name) => {
  const type = EVENT_TYPES[name];
  const { description, permission } = type;
  return { name, description, permission, isOfPartner: 'isOfPartner' in type };
});

export const webhookRoutes = (parts: WebhookRouteParts): RouteGroup => {
  const { secrets, webhookFetch } = parts;
  return {
    name: 'Webhooks',
    description:
      'URLs of integrators to which events are sent as JSON `{ id, type, createdAt, orgId, data }`, signed as the Standard Webhooks specification says. An addition to the specification; see docs/webhooks.md.',
    routes: [
      route({
        method: 'get',
        path: '/webhooks/event-types',
        summary: 'List the types of events that can be sent',
        access: everyScope('webhooks:read'),
        response: z.object({ data: z.array(EventTypeInfo) }),
        handler: () => Promise.resolve({ data: eventTypes }),
      }),
      route({
        method: 'get',
        path: '/webhooks',
        summary: 'List webhooks by name',
        description:
          'Those of partners are shown to users with access to all of the organizations of the partner.',
        access: everyScope('webhooks:read'),
        query: WebhookQuery,
        response: pageOf(Webhook),
        handler: ({ ctx, query }) => listWebhooks(ctx, query),
      }),
      route({
        method: 'post',
        path: '/webhooks',
        summary: 'Create a webhook',
        description:
          'The secret is returned only once. You need the permissions to read the events that it receives. An organization can have 20 webhooks, and a partner 20 of its own.',
        access: everyScope('webhooks:write'),
        body: NewWebhook,
        response: WebhookWithSecret,
        status: 201,
        errors: ['conflict', 'limit_reached', 'tenant_inactive'],
        prepare: ({ body }) => checkUrl(webhookFetch, body.url),
        handler: ({ ctx, body }) => createWebhook(ctx, body, secrets),
        audit: {
          action: 'webhook.create',
          resource: 'webhook',
          note: (webhook) => ({
            ...auditSubject(webhook),
            details: { url: recordedUrl(webhook.url), eventTypes: webhook.eventTypes },
          }),
        },
      }),
      route({
        method: 'get',
        path: '/webhooks/:id',
        summary: 'Read a webhook',
        access: everyScope('webhooks:read'),
        params: IdParams,
        response: Webhook,
        handler: async ({ ctx, params }) => toWebhookResponse(await findWebhook(ctx, params.id)),
      }),
      route({
        method: 'patch',
        path: '/webhooks/:id',
        summary: 'Change, enable or disable a webhook',
        description:
          'A webhook that is disabled receives nothing: what waits for it fails, and what happens meanwhile is not kept for it.',
        access: everyScope('webhooks:write'),
        params: IdParams,
        body: WebhookPatch,
        response: Webhook,
        errors: ['conflict', 'tenant_inactive'],
        prepare: ({ body }) => checkUrl(webhookFetch, body.url),
        handler: ({ ctx, params, body }) => updateWebhook(ctx, params.id, body),
        audit: {
          action: 'webhook.update',
          resource: 'webhook',
          note: ({ changedFields, ...webhook }) => ({
            ...auditSubject(webhook),
            details: { changedFields },
          }),
        },
      }),
      route({
        method: 'delete',
        path: '/webhooks/:id',
        summary: 'Delete a webhook with its log',
        access: everyScope('webhooks:delete'),
        params: IdParams,
        response: z.object({ success: z.literal(true) }),
        errors: ['tenant_inactive'],
        handler: ({ ctx, params }) => deleteWebhook(ctx, params.id),
        audit: {
          action: 'webhook.delete',
          resource: 'webhook',
          note: ({ webhook }) => auditSubject(webhook),
        },
      }),
      route({
        method: 'post',
        path: '/webhooks/:id/rotate-secret',
        summary: 'Replace the secret of a webhook',
        description:
          'The new one is returned only once. Both sign until the old one ends, so that the receiver can change over without a gap.',
        access: everyScope('webhooks:write'),
        params: IdParams,
        body: Rotation,
        response: WebhookWithSecret,
        errors: ['tenant_inactive'],
        handler: ({ ctx, params, body }) => rotateSecret(ctx, params.id, body, secrets),
        audit: {
          action: 'webhook.rotate',
          resource: 'webhook',
          note: (webhook) => ({
            ...auditSubject(webhook),
            details: { previousSecretUntil: webhook.previousSecretUntil },
          }),
        },
      }),
      route({
        method: 'post',
        path: '/webhooks/:id/test',
        summary: 'Send a ping to a webhook at once',
        description:
          'Its type is `webhook.ping`. What came of it is the answer, and is not in the log. 10 times a minute.',
        access: everyScope('webhooks:write'),
        params: IdParams,
        response: TestOutcome,
        errors: ['rate_limited', 'tenant_inactive'],
        prepare: ({ ctx, params, signal }) => testWebhook(ctx, params.id, { ...parts, signal }),
        handler: ({ prepared }) => Promise.resolve(prepared),
        audit: {
          action: 'webhook.test',
          resource: 'webhook',
          note: ({ webhook, ok, responseStatus }) => ({
            ...auditSubject(webhook),
            details: { ok, responseStatus },
          }),
        },
      }),
    ],
  };
};

/** Refuses a URL to which nothing would be sent. It is checked again before each request. */
async function checkUrl(
  outbound: Pick<GuardedFetch, 'assertPermitted'>,
  url: string | undefined,
): Promise<void> {
  if (url === undefined) return;
  try {
    await outbound.assertPermitted(url);
  } catch (error) {
    if (error instanceof OutboundError) throw invalid('body.url', error.message);
    throw error;
  }
}

export const deliveryRoutes: RouteGroup = {
  name: 'Webhook deliveries',
  description:
    'The log of what was sent to webhooks. It is kept for at least 14 days, and for at most 21. An addition to the specification.',
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
