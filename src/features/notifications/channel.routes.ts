import { z } from 'zod';
import { everyScope } from '../../platform/http/authentication.ts';
import { auditSubject } from '../../platform/http/audit.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import type { GuardedFetch } from '../../platform/outbound/guarded-fetch.ts';
import {
  ChannelPatch,
  ChannelQuery,
  ChannelTest,
  NewChannel,
  NotificationChannel,
} from './channel.schema.ts';
import {
  checkReceiver,
  createChannel,
  deleteChannel,
  findChannel,
  listChannels,
  recordTest,
  sendTest,
  type TestParts,
  toChannelResponse,
  updateChannel,
} from './channel.service.ts';

export interface ChannelRouteParts extends TestParts {
  webhookFetch: GuardedFetch;
}

const READ = everyScope('alerts:read');
const WRITE = everyScope('organizations:write');

export const channelRoutes = (parts: ChannelRouteParts): RouteGroup => {
  const { secrets, webhookFetch } = parts;
  return {
    name: 'Notification channels',
    description:
      'Ways in which alerts reach people: mail, Slack, Teams, Discord, PagerDuty, ntfy, webhooks. An addition to the specification.',
    routes: [
      route({
        method: 'get',
        path: '/notification-channels',
        summary: 'List notification channels by name',
        description:
          'Those of partners are shown to users with access to all of the organizations of the partner.',
        access: READ,
        query: ChannelQuery,
        response: pageOf(NotificationChannel),
        handler: ({ ctx, query }) => listChannels(ctx, query),
      }),
      route({
        method: 'post',
        path: '/notification-channels',
        summary: 'Create a notification channel',
        description: 'An organization can have 50 channels, and a partner 50 of its own.',
        access: WRITE,
        body: NewChannel,
        response: NotificationChannel,
        status: 201,
        errors: ['conflict', 'limit_reached', 'tenant_inactive'],
        prepare: ({ body }) => checkReceiver(webhookFetch, body.type, body),
        handler: ({ ctx, body }) => createChannel(ctx, body, secrets),
        audit: {
          action: 'notification_channel.create',
          resource: 'notification_channel',
          note: (channel) => ({ ...auditSubject(channel), details: { type: channel.type } }),
        },
      }),
      route({
        method: 'get',
        path: '/notification-channels/:id',
        summary: 'Read a notification channel',
        access: READ,
        params: IdParams,
        response: NotificationChannel,
        handler: async ({ ctx, params }) => toChannelResponse(await findChannel(ctx, params.id)),
      }),
      route({
        method: 'patch',
        path: '/notification-channels/:id',
        summary: 'Change a notification channel',
        access: WRITE,
        params: IdParams,
        body: ChannelPatch,
        response: NotificationChannel,
        errors: ['conflict', 'tenant_inactive'],
        prepare: async ({ ctx, params, body }) => {
          if (body.details === undefined && body.secret === undefined) return;
          const { type } = await ctx.withTenant((inTenant) => findChannel(inTenant, params.id));
          await checkReceiver(webhookFetch, type, body);
        },
        handler: ({ ctx, params, body }) => updateChannel(ctx, params.id, body, secrets),
        audit: {
          action: 'notification_channel.update',
          resource: 'notification_channel',
          note: auditSubject,
        },
      }),
      route({
        method: 'delete',
        path: '/notification-channels/:id',
        summary: 'Delete a notification channel',
        description: 'One that a policy uses cannot be deleted. What was sent to it stays in the log.',
        access: WRITE,
        params: IdParams,
        response: z.object({ success: z.literal(true) }),
        errors: ['conflict', 'tenant_inactive'],
        handler: ({ ctx, params }) => deleteChannel(ctx, params.id),
        audit: {
          action: 'notification_channel.delete',
          resource: 'notification_channel',
          note: ({ channel }) => auditSubject(channel),
        },
      }),
      route({
        method: 'post',
        path: '/notification-channels/:id/test',
        summary: 'Send a test message to a notification channel at once',
        description:
          'The answer says what came of it, and so does the channel. 10 times a minute. PagerDuty gets an incident of the lowest severity.',
        access: WRITE,
        params: IdParams,
        response: ChannelTest,
        errors: ['rate_limited', 'tenant_inactive'],
        prepare: ({ ctx, params, signal }) => sendTest(ctx, params.id, { ...parts, signal }),
        handler: ({ ctx, prepared }) => recordTest(ctx, prepared),
        audit: {
          action: 'notification_channel.test',
          resource: 'notification_channel',
          note: ({ channel, ok, responseStatus }) => ({
            ...auditSubject(channel),
            details: { ok, responseStatus },
          }),
        },
      }),
    ],
  };
};
