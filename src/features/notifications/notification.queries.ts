import { clock } from '../../clock.ts';
import type { Context } from '../../platform/context.ts';
import { inTenant, nameOrder } from '../../platform/db/statement.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { shortened } from '../../protocol/index.ts';
import type { AlertSeverity } from '../alerts/index.ts';
import { type Owner, whereOwnerAccessible } from '../owners/index.ts';
import type { ChannelType } from './channel.schema.ts';
import { Notification, NotificationChannel, NotificationPolicy } from './notification.model.ts';
import type { WeeklyHours } from './policy.schema.ts';
import { ERROR_MAX, type SendOutcome } from './send.ts';

type Reader = Pick<Context, 'tx' | 'caller'>;

/** The channels that the caller may see. */
export const accessibleChannels = (ctx: Reader) =>
  whereOwnerAccessible(NotificationChannel.query(ctx.tx), ctx, 'notification_channels');

export const accessibleChannelsByName = (ctx: Reader) =>
  accessibleChannels(ctx).orderByRaw(`${nameOrder('name')}, id`);

/** The policies that the caller may see. */
export const accessiblePolicies = (ctx: Reader) =>
  whereOwnerAccessible(NotificationPolicy.query(ctx.tx), ctx, 'notification_policies');

export const accessibleNotifications = ({ tx, caller }: Reader) =>
  Notification.query(tx).whereRaw(inTenant(caller, 'notifications.org_id'));

/** SQL with its bindings: whether a notification is about an alert. */
export const aboutAlert = (alertId: string): [string, string[]] => [
  `(notifications.alert_id = ? or notifications.group_id in (
    select group_id from notification_group_alerts where alert_id = ?))`,
  [alertId, alertId],
];

/** The ids among these of channels that the caller may see, and that a policy of the owner may use. */
export async function channelsAmong(ctx: Reader, { partnerId, orgId }: Owner, ids: readonly string[]) {
  if (ids.length === 0) return [];
  const channels = accessibleChannels(ctx)
    .findByIds([...ids])
    .where('partner_id', partnerId)
    .where((either) => {
      void either.whereNull('org_id');
      if (orgId !== null) void either.orWhere('org_id', orgId);
    })
    .select('id');
  return (await channels).map(({ id }) => id);
}

/** The name of a policy that uses the channel. */
export async function policyNaming(
  tx: Tx,
  { id, partnerId }: Pick<NotificationChannel, 'id' | 'partnerId'>,
): Promise<string | undefined> {
  const policy = await NotificationPolicy.query(tx)
    .where('partner_id', partnerId)
    .whereRaw('steps @> ?::jsonb', [JSON.stringify([{ channelIds: [id] }])])
    .orderBy('id')
    .first();
  return policy?.name;
}

export interface ChannelName {
  policyId: string;
  id: string;
  name: string;
  type: ChannelType;
}

/** The channels that policies use, also those that the caller may not see. */
export async function channelNames(tx: Tx, policyIds: readonly string[]): Promise<ChannelName[]> {
  if (policyIds.length === 0) return [];
  const { rows } = await tx.raw<{ rows: ChannelName[] }>(
    `select policy_id as "policyId", id, name, type from notification_channel_names(?::uuid[])
    order by ${nameOrder('name')}, id`,
    [[...policyIds]],
  );
  return rows;
}

/** A person who reaches a tenant, with what they want to be told. */
export interface Person {
  id: string;
  name: string;
  /** Of the account. */
  email: string;
  status: string;
  permissions: string[];
  quietHours: WeeklyHours | null;
  criticalBreaksQuietHours: boolean;
  severities: AlertSeverity[] | null;
}

/** Those among these who reach the organization, or belong to the partner if that is null. */
export async function peopleAmong(
  tx: Tx,
  { partnerId, orgId }: Pick<Owner, 'partnerId' | 'orgId'>,
  ids: readonly string[],
): Promise<Person[]> {
  if (ids.length === 0) return [];
  const { rows } = await tx.raw<{ rows: Person[] }>(
    `select id, name, email, status, permissions, quiet_hours as "quietHours",
      critical_breaks_quiet_hours as "criticalBreaksQuietHours", severities
    from notification_people(:ids::uuid[], :partnerId::uuid, :orgId::uuid)`,
    { ids: [...ids], partnerId, orgId: orgId as string },
  );
  return rows;
}

/** The ids among these of sites of the owner's organizations. */
export async function sitesAmong(
  tx: Tx,
  { partnerId, orgId }: Owner,
  ids: readonly string[],
): Promise<Set<string>> {
  const { rows } = await tx.raw<{ rows: { id: string }[] }>(
    `select s.id from sites s join organizations o on o.id = s.org_id
    where s.id = any(?::uuid[]) and ${orgId === null ? 'o.partner_id' : 'o.id'} = ?`,
    [[...ids], orgId ?? partnerId],
  );
  return new Set(rows.map(({ id }) => id));
}

/** The site of a device; `undefined` if the organization has no such device. */
export async function devicePlace(tx: Tx, orgId: string, deviceId: string): Promise<string | undefined> {
  const row = await tx('devices')
    .where({ org_id: orgId, id: deviceId })
    .first<{ site_id: string } | undefined>('site_id');
  return row?.site_id;
}

/** The policies that an alert of the organization meets, in their order: its own, then those of its partner. */
export const policiesOfOrganization = (tx: Tx, { partnerId, orgId }: { partnerId: string; orgId: string }) =>
  NotificationPolicy.query(tx)
    .where('partner_id', partnerId)
    .where((either) => void either.where('org_id', orgId).orWhereNull('org_id'))
    .orderByRaw('org_id nulls last, position, id');

/** Closes the gap that a deleted policy leaves. Its owner is locked. */
export async function moveBehind(tx: Tx, { partnerId, orgId, position }: NotificationPolicy): Promise<void> {
  await NotificationPolicy.query(tx)
    .where({ partner_id: partnerId, org_id: orgId })
    .where('position', '>', position)
    .decrement('position', 1);
}

/** The owner is locked. */
export async function setPositions(tx: Tx, ids: readonly string[]): Promise<void> {
  await tx.raw(
    `update notification_policies p set position = o.place - 1, updated_at = now()
    from unnest(?::uuid[]) with ordinality as o (id, place) where p.id = o.id and p.position <> o.place - 1`,
    [[...ids]],
  );
}

/** Makes the open conversations of a policy due. They are locked first, in the order of their ids. */
export async function wakeGroups(tx: Tx, policyId: string): Promise<void> {
  const { rows } = await tx.raw<{ rows: { id: string }[] }>(
    `select id from notification_groups where policy_id = ? and state <> 'closed' order by id for no key update`,
    [policyId],
  );
  if (rows.length === 0) return;
  await tx.raw('update notification_groups set due_at = now() where id = any(?::uuid[])', [
    rows.map(({ id }) => id),
  ]);
}

/** What a send has come to, in the channel. A success that only repeats the one before is not needed to the second. */
export async function recordChannelOutcome(tx: Tx, channelId: string, outcome: SendOutcome): Promise<void> {
  if (outcome.ok) {
    await tx.raw(
      `update notification_channels set failing_since = null, last_error = null, paused_until = null, last_success_at = now()
      where id = ? and (failing_since is not null or paused_until is not null or last_success_at is null
        or last_success_at < now() - interval '10 seconds')`,
      [channelId],
    );
    return;
  }
  await tx.raw(
    `update notification_channels set failing_since = coalesce(failing_since, now()), last_error = :error,
      paused_until = case when :waitMs::float8 > 0
        then greatest(paused_until, now() + :waitMs::float8 * interval '1 millisecond') else paused_until end
    where id = :channelId`,
    { channelId, error: shortened(outcome.error, ERROR_MAX), waitMs: outcome.waitMs ?? 0 },
  );
}

/** Adds the test of a channel to the log of its organization. */
export async function insertTest(
  tx: Tx,
  { id: channelId, partnerId, name }: NotificationChannel,
  orgId: string,
  { id, outcome }: { id: string; outcome: SendOutcome },
): Promise<void> {
  await Notification.query(tx).insert({
    id,
    partnerId,
    orgId,
    channelId,
    recipient: name,
    reason: 'test',
    status: outcome.ok ? 'sent' : 'failed',
    title: 'Test message',
    severity: 'info',
    alertCount: 0,
    attempts: 1,
    error: outcome.ok ? null : shortened(outcome.error, ERROR_MAX),
    sentAt: outcome.ok ? clock.date() : null,
  });
}
