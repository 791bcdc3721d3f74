import { everyScope } from '../../platform/http/authentication.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import {
  Notification,
  NotificationQuery,
  NotificationSettings,
  NotificationSettingsPatch,
} from './notification.schema.ts';
import { changeOwnSettings, listNotifications, readOwnSettings } from './notification.service.ts';

export const notificationRoutes: RouteGroup = {
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
      handler: ({ ctx, body }) => changeOwnSettings(ctx, body),
      audit: {
        action: 'user.notification_settings.update',
        resource: 'user',
        note: (_settings, { ctx }) => ({
          resourceId: ctx.caller.userId,
          resourceName: ctx.caller.name,
          orgId: ctx.caller.orgId,
          partnerId: ctx.caller.partnerId,
        }),
      },
    }),
  ],
};
