import { everyScope } from '../../platform/http/authentication.ts';
import type { Context } from '../../platform/context.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import {
  AddressCode,
  Notification,
  NotificationQuery,
  NotificationSettings,
  NotificationSettingsPatch,
} from './notification.schema.ts';
import { listNotifications } from './notification.service.ts';
import {
  changeOwnSettings,
  mailAddressCode,
  type OwnSettingsParts,
  readOwnSettings,
  verifyOwnAddress,
} from './own-settings.service.ts';

const audited = (action: string) =>
  ({
    action,
    resource: 'user',
    note: (_settings: NotificationSettings, { ctx: { caller } }: { ctx: Context }) => ({
      resourceId: caller.userId,
      resourceName: caller.name,
      orgId: caller.orgId,
      partnerId: caller.partnerId,
    }),
  }) as const;

export const notificationRoutes = (parts: OwnSettingsParts): RouteGroup => ({
  name: 'Notifications',
  description:
    'What was sent about alerts, to whom, and why not. Kept as long as alerts. An addition to the specification.',
  routes: [
    route({
      method: 'get',
      path: '/notifications',
      summary: 'List notifications, newest first',
      description:
        'The test of a channel of a partner is not in the list; the channel shows what came of it.',
      access: everyScope('alerts:read'),
      cost: 'expensive',
      query: NotificationQuery,
      response: pageOf(Notification),
      handler: ({ ctx, query }) => listNotifications(ctx, query),
    }),
    route({
      method: 'get',
      path: '/users/me/notification-settings',
      summary: 'Read what you want to be told',
      access: 'signed-in',
      response: NotificationSettings,
      handler: ({ ctx }) => readOwnSettings(ctx),
    }),
    route({
      method: 'patch',
      path: '/users/me/notification-settings',
      summary: 'Change what you want to be told',
      description: 'It counts wherever a policy names you.',
      access: 'person',
      body: NotificationSettingsPatch,
      response: NotificationSettings,
      handler: ({ ctx, body }) => changeOwnSettings(ctx, body, parts),
      audit: audited('user.notification_settings.update'),
    }),
    route({
      method: 'post',
      path: '/users/me/notification-settings/address-code',
      summary: 'Have a further code mailed to your address for alerts',
      description: 'The codes before it count no more.',
      access: 'person',
      response: NotificationSettings,
      errors: ['conflict', 'rate_limited'],
      handler: ({ ctx }) => mailAddressCode(ctx, parts),
      audit: audited('user.notification_address.code'),
    }),
    route({
      method: 'post',
      path: '/users/me/notification-settings/verify-address',
      summary: 'Verify your address for alerts with the code that was mailed to it',
      access: 'person',
      body: AddressCode,
      response: NotificationSettings,
      errors: ['conflict', 'rate_limited'],
      // Before the transaction, which would wait for the count.
      prepare: ({ ctx }) => parts.addressCodeLimits.guessesOf.take(ctx.caller.userId),
      handler: ({ ctx, body }) => verifyOwnAddress(ctx, body),
      audit: audited('user.notification_address.verify'),
    }),
  ],
});
