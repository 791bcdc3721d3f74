import type { Context } from '../../platform/context.ts';
import { noFields } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { omitUndefined } from '../../platform/omit-undefined.ts';
import { clock } from '../../clock.ts';
import { assertOrganizationAccess } from '../organizations/index.ts';
import { NotificationSettings } from './notification.model.ts';
import { accessibleNotifications, aboutAlert } from './notification.queries.ts';
import type {
  NotificationQuery,
  NotificationSettings as Settings,
  NotificationSettingsPatch,
} from './notification.schema.ts';

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

const DEFAULTS: Settings = {
  address: null,
  phone: null,
  quietHours: null,
  criticalBreaksQuietHours: true,
  severities: null,
};

export async function readOwnSettings({ tx, caller }: Pick<Context, 'tx' | 'caller'>): Promise<Settings> {
  const stored = await NotificationSettings.query(tx).findById(caller.userId);
  if (stored === undefined) return DEFAULTS;
  const { address, phone, quietHours, criticalBreaksQuietHours, severities } = stored;
  return { address, phone, quietHours, criticalBreaksQuietHours, severities };
}

export async function changeOwnSettings(ctx: Context, patch: NotificationSettingsPatch): Promise<Settings> {
  const changes = omitUndefined(patch);
  if (Object.keys(changes).length === 0) throw noFields();
  const before = await readOwnSettings(ctx);
  const after = { ...before, ...changes };
  // Fields that were not sent are not written, so that a concurrent change of them is kept.
  await NotificationSettings.query(ctx.tx)
    .insert({ userId: ctx.caller.userId, ...after, updatedAt: clock.date() })
    .onConflict('user_id')
    .merge({ ...changes, updatedAt: clock.date() });
  ctx.recordChange(before, after);
  return after;
}
