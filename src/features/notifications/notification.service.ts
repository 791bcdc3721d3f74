import type { Context } from '../../platform/context.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { assertOrganizationAccess } from '../organizations/index.ts';
import { accessibleNotifications, aboutAlert } from './notification.queries.ts';
import type { NotificationQuery } from './notification.schema.ts';

export async function listNotifications(ctx: Context, query: NotificationQuery) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const notifications = accessibleNotifications(ctx)
    .orderBy([
      { column: 'created_at', order: 'desc' },
      { column: 'id', order: 'desc' },
    ])
    .page(query.page - 1, query.limit);
  if (query.orgId !== undefined) void notifications.where('org_id', query.orgId);
  if (query.channelId !== undefined) void notifications.where('channel_id', query.channelId);
  if (query.userId !== undefined) void notifications.where('user_id', query.userId);
  if (query.status !== undefined) void notifications.whereRaw('status = any(?::text[])', [query.status]);
  if (query.from !== undefined) void notifications.where('created_at', '>=', query.from);
  if (query.to !== undefined) void notifications.where('created_at', '<=', query.to);
  if (query.alertId !== undefined) void notifications.whereRaw(...aboutAlert(query.alertId));
  return toPage(query, await notifications);
}
