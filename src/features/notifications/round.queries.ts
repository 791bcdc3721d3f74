import type { Tx } from '../../platform/db/transaction.ts';
import { isManageableSql } from '../organizations/index.ts';
import type { AlertSeverity, AlertStatus } from '../alerts/index.ts';
import type { GroupState, Progress, Standing } from './escalation.ts';
import { NAMED_MAX, type ToldAlert } from './payloads/message.ts';

/** The statements of the rounds, which work across tenants. */

/** Organizations whose alerts have changed, found one after another by an index. */
export async function waitingOrganizations(
  tx: Tx,
  { except, limit }: { except: readonly string[]; limit: number },
): Promise<string[]> {
  const { rows } = await tx.raw<{ rows: { org_id: string }[] }>(
    `with recursive waiting as (
      (select org_id from notification_outbox order by org_id limit 1)
      union all
      select (select o.org_id from notification_outbox o where o.org_id > w.org_id order by o.org_id limit 1)
      from waiting w where w.org_id is not null
    )
    select org_id from waiting where org_id is not null and org_id <> all(?::uuid[]) limit ?`,
    [[...except], limit],
  );
  return rows.map(({ org_id: id }) => id);
}

/** The changes of one organization are taken by one server at a time, so that none overtakes another. */
export async function lockOutbox(tx: Tx, orgId: string): Promise<boolean> {
  const { rows } = await tx.raw<{ rows: { locked: boolean }[] }>(
    `select pg_try_advisory_xact_lock(hashtextextended('notifications ' || ?, 0)) as locked`,
    [orgId],
  );
  return rows[0]?.locked === true;
}

/** An alert that has changed, as it is now. */
export interface ChangedAlert {
  id: string;
  subjectId: string;
  siteId: string | null;
  kind: string;
  severity: AlertSeverity;
  status: AlertStatus;
  title: string;
  /** It was raised, has become active again, or is worse than before. */
  isRaised: boolean;
  /** A conversation whose policy is enabled has it. */
  isTold: boolean;
}

export const OUTBOX_BATCH = 20_000;

/** Takes the changes of an organization. The alerts of a storm are taken together. */
export async function takeChanges(tx: Tx, orgId: string): Promise<ChangedAlert[]> {
  const { rows } = await tx.raw<{ rows: ChangedAlert[] }>(
    `with taken as (
      delete from notification_outbox where id in (
        select id from notification_outbox where org_id = ? order by id limit ${OUTBOX_BATCH})
      returning alert_id, change
    ), touched as (
      select alert_id, bool_or(change = 'raised') as is_raised from taken group by alert_id
    )
    select a.id, a.subject_id as "subjectId", d.site_id as "siteId", a.kind, a.severity, a.status, a.title,
      t.is_raised as "isRaised", exists (
        select from notification_group_alerts ga
        join notification_groups g on g.id = ga.group_id and g.org_id = a.org_id and g.state <> 'closed'
        join notification_policies p on p.id = g.policy_id and p.enabled
        where ga.alert_id = a.id) as "isTold"
    from touched t
    -- What has moved to another organization has an entry there.
    join alerts a on a.id = t.alert_id and a.org_id = ? left join devices d on d.id = a.device_id
    order by a.raised_at, a.id`,
    [orgId, orgId],
  );
  return rows;
}

export interface TenantNow {
  partnerId: string;
  /** Nothing new is told in one that is deleted or suspended. */
  isManageable: boolean;
  now: Date;
}

export async function tenantNow(tx: Tx, orgId: string): Promise<TenantNow | undefined> {
  const { rows } = await tx.raw<{ rows: TenantNow[] }>(
    `select o.partner_id as "partnerId", o.deleted_at is null and ${isManageableSql('o')} as "isManageable", now() as now
    from organizations o where o.id = ?`,
    [orgId],
  );
  return rows[0];
}

/** A conversation, locked. */
export interface Group extends Progress {
  id: string;
  partnerId: string;
  orgId: string;
  policyId: string;
  key: string;
  title: string;
  state: GroupState;
}

const GROUP = `g.id, g.partner_id as "partnerId", g.org_id as "orgId", g.policy_id as "policyId", g.key, g.title, g.state,
  g.began_at as "beganAt", g.steps_taken as "stepsTaken", g.repeats, g.last_told_at as "lastToldAt"`;

export interface NewGroup {
  policyId: string;
  key: string;
  title: string;
  beganAt: Date;
}

/** Begins conversations, unless one with the same key is open. */
export async function addGroups(
  tx: Tx,
  { partnerId, orgId }: { partnerId: string; orgId: string },
  groups: readonly NewGroup[],
): Promise<void> {
  await tx.raw(
    `insert into notification_groups (id, partner_id, org_id, policy_id, key, title, began_at, due_at)
    select new_row_id(), :partnerId, :orgId, n."policyId", n.key, n.title, n."beganAt", n."beganAt"
    from jsonb_to_recordset(:groups::jsonb) as n ("policyId" uuid, key text, title text, "beganAt" timestamptz)
    on conflict (policy_id, org_id, key) where state <> 'closed' do nothing`,
    { partnerId, orgId, groups: JSON.stringify(groups) },
  );
}

/** Locks the open conversations that have one of the alerts, or one of the keys, in the order of their ids. */
export async function lockGroups(
  tx: Tx,
  orgId: string,
  { alertIds, keys }: { alertIds: readonly string[]; keys: readonly Pick<NewGroup, 'policyId' | 'key'>[] },
): Promise<Group[]> {
  const { rows } = await tx.raw<{ rows: Group[] }>(
    `select ${GROUP} from notification_groups g
    where g.state <> 'closed' and g.id = any(array(
      select ga.group_id from notification_group_alerts ga where ga.alert_id = any(:alertIds::uuid[])
      union
      select k.id from jsonb_to_recordset(:keys::jsonb) as n ("policyId" uuid, key text)
      join notification_groups k on k.policy_id = n."policyId" and k.org_id = :orgId and k.key = n.key
        and k.state <> 'closed'))
    order by g.id for no key update`,
    { orgId, alertIds: [...alertIds], keys: JSON.stringify(keys) },
  );
  return rows;
}

/** Takes conversations that are due, and that no other server has. */
export async function takeDueGroups(
  tx: Tx,
  { limit, only }: { limit: number; only?: string },
): Promise<{ groups: Group[]; now: Date }> {
  const { rows } = await tx.raw<{ rows: (Group & { now: Date })[] }>(
    `select ${GROUP}, now() as now from notification_groups g
    where g.due_at <= now() ${only === undefined ? '' : 'and g.id = :only'}
    order by g.due_at, g.id limit :limit for no key update skip locked`,
    { limit, only: only ?? '' },
  );
  return { groups: rows, now: rows[0]?.now ?? new Date(0) };
}

export async function dueGroupIds(tx: Tx, limit: number): Promise<string[]> {
  const { rows } = await tx.raw<{ rows: { id: string }[] }>(
    'select id from notification_groups where due_at <= now() order by due_at, id limit ?',
    [limit],
  );
  return rows.map(({ id }) => id);
}

/** So that one that cannot be advanced does not stand before all others in every round. */
export async function postponeGroup(tx: Tx, id: string): Promise<void> {
  await tx.raw(
    `update notification_groups set due_at = now() + interval '1 minute' where id = ? and state <> 'closed'`,
    [id],
  );
}

/** Adds alerts to conversations. Those that were there before count as new. */
export async function joinAlerts(
  tx: Tx,
  orgId: string,
  joined: readonly { groupId: string; alertId: string }[],
): Promise<void> {
  await tx.raw(
    `insert into notification_group_alerts (group_id, org_id, alert_id, status)
    select group_id, :orgId, alert_id, 'active' from unnest(:groupIds::uuid[], :alertIds::uuid[]) as j (group_id, alert_id)
    on conflict (group_id, alert_id) do update set status = 'active', joined_at = now(), told_at = null`,
    {
      orgId,
      groupIds: joined.map(({ groupId }) => groupId),
      alertIds: joined.map(({ alertId }) => alertId),
    },
  );
}

/** Notes in locked conversations how their alerts are now. One that is active again, or worse, counts as new. */
export async function noteStatuses(
  tx: Tx,
  groupIds: readonly string[],
  alerts: readonly ChangedAlert[],
): Promise<void> {
  await tx.raw(
    `update notification_group_alerts ga set status = c.status,
      told_at = case when c.is_raised and c.status = 'active' then null else ga.told_at end
    from unnest(:ids::uuid[], :statuses::text[], :raised::boolean[]) as c (id, status, is_raised)
    where ga.alert_id = c.id and ga.group_id = any(:groupIds::uuid[])`,
    {
      groupIds: [...groupIds],
      ids: alerts.map(({ id }) => id),
      statuses: alerts.map(({ status }) => status),
      raised: alerts.map(({ isRaised }) => isRaised),
    },
  );
}

/** Takes alerts out of the locked conversations of organizations that their devices have left. */
export async function leaveConversations(
  tx: Tx,
  orgId: string,
  { groupIds, alertIds }: { groupIds: readonly string[]; alertIds: readonly string[] },
): Promise<void> {
  await tx.raw(
    `update notification_group_alerts set status = 'resolved'
    where group_id = any(:groupIds::uuid[]) and alert_id = any(:alertIds::uuid[]) and org_id <> :orgId`,
    { orgId, groupIds: [...groupIds], alertIds: [...alertIds] },
  );
}

/** By conversation. One without alerts has none in the answer. */
export async function standings(tx: Tx, groupIds: readonly string[]): Promise<Map<string, Standing>> {
  const { rows } = await tx.raw<{ rows: (Standing & { id: string })[] }>(
    `select group_id as id, count(*) filter (where status = 'active')::int as active,
      count(*) filter (where status = 'acknowledged')::int as acknowledged,
      count(*) filter (where status = 'active' and told_at is null)::int as untold
    from notification_group_alerts where group_id = any(?::uuid[]) group by group_id`,
    [[...groupIds]],
  );
  return new Map(rows.map(({ id, ...standing }) => [id, standing]));
}

export async function markTold(tx: Tx, groupIds: readonly string[]): Promise<void> {
  await tx.raw(
    `update notification_group_alerts set told_at = now()
    where group_id = any(?::uuid[]) and told_at is null and status <> 'resolved'`,
    [[...groupIds]],
  );
}

export type GroupChange = Pick<Group, 'id' | 'state' | keyof Progress> & { dueAt: Date | null };

export async function storeGroups(tx: Tx, changes: readonly GroupChange[]): Promise<void> {
  await tx.raw(
    `update notification_groups g set state = c.state, began_at = c."beganAt", steps_taken = c."stepsTaken",
      repeats = c.repeats, last_told_at = c."lastToldAt", due_at = c."dueAt",
      closed_at = case when c.state = 'closed' then now() end
    from jsonb_to_recordset(?::jsonb) as c (id uuid, state text, "beganAt" timestamptz, "stepsTaken" smallint,
      repeats smallint, "lastToldAt" timestamptz, "dueAt" timestamptz)
    where g.id = c.id`,
    [JSON.stringify(changes)],
  );
}

/** Which alerts of a conversation a message is about. */
export type Subject = 'open' | 'untold' | 'all';

const SUBJECTS: Record<Subject, string> = {
  open: `ga.status <> 'resolved'`,
  untold: `ga.status = 'active' and ga.told_at is null`,
  all: 'true',
};

export interface Told {
  groupId: string;
  organization: string;
  policy: string | null;
  /** The site that all alerts are at, if they are one conversation because of that. */
  place: string | null;
  count: number;
  severity: AlertSeverity;
  alerts: ToldAlert[];
}

const RANK = `array_position(array['critical', 'high', 'medium', 'low', 'info'], a.severity)`;

/**
 * What messages about conversations say. The worst alerts are named. Those of a conversation that ends may all be gone,
 * and those of a device that has left the organization are none of its people's any more.
 */
export async function readTold(
  tx: Tx,
  subject: Subject,
  groupIds: readonly string[],
): Promise<Map<string, Told>> {
  if (groupIds.length === 0) return new Map();
  const { rows } = await tx.raw<{ rows: Told[] }>(
    `select g.id as "groupId", o.name as organization, p.name as policy, s.name as place, t.count,
      coalesce((array['critical', 'high', 'medium', 'low', 'info'])[t.worst], 'info') as severity,
      coalesce(named.alerts, '[]') as alerts
    from notification_groups g join organizations o on o.id = g.org_id
    left join notification_policies p on p.id = g.policy_id
    left join sites s on s.org_id = g.org_id
      and s.id = case when g.key like 'site %-%' then substr(g.key, 6)::uuid end
    cross join lateral (
      select count(*)::int as count, min(${RANK}) as worst from notification_group_alerts ga
      join alerts a on a.id = ga.alert_id and a.org_id = g.org_id where ga.group_id = g.id and ${SUBJECTS[subject]}) t
    cross join lateral (
      select json_agg(json_build_object('id', n.id, 'title', n.title, 'message', n.message, 'severity', n.severity,
        'kind', n.kind, 'raisedAt', to_char(n.raised_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))) as alerts
      from (
        select a.* from notification_group_alerts ga join alerts a on a.id = ga.alert_id and a.org_id = g.org_id
        where ga.group_id = g.id and ${SUBJECTS[subject]}
        order by ${RANK}, a.raised_at, a.id limit ${NAMED_MAX}) n) named
    where g.id = any(?::uuid[]) ${subject === 'all' ? '' : 'and t.count > 0'}`,
    [[...groupIds]],
  );
  return new Map(rows.map((told) => [told.groupId, told]));
}

/** The messages that tell about alerts, unlike those about what became of them. */
const TELLS = `reason in ('raised', 'escalated', 'repeated')`;

/** The messages of conversations that are not sent yet. */
export async function pendingTellings(tx: Tx, groupIds: readonly string[]): Promise<string[]> {
  const { rows } = await tx.raw<{ rows: { id: string }[] }>(
    `select id from notifications where group_id = any(?::uuid[]) and status = 'pending' and ${TELLS} order by id`,
    [[...groupIds]],
  );
  return rows.map(({ id }) => id);
}

/** Of the messages whose work was cancelled. */
export async function suppress(tx: Tx, ids: readonly string[], why: string): Promise<void> {
  if (ids.length === 0) return;
  const bindings = [[...ids]];
  await tx.raw('select from notifications where id = any(?::uuid[]) order by id for no key update', bindings);
  await tx.raw(
    `update notifications set status = 'suppressed', error = ? where id = any(?::uuid[]) and status = 'pending'`,
    [why, [...ids]],
  );
}

export interface ToldRecipient {
  groupId: string;
  channelId: string | null;
  userId: string | null;
  step: number | null;
}

/** Who was told about conversations, or may have been, or is being told at this moment. */
export async function toldRecipients(tx: Tx, groupIds: readonly string[]): Promise<ToldRecipient[]> {
  const { rows } = await tx.raw<{ rows: ToldRecipient[] }>(
    `select group_id as "groupId", channel_id as "channelId", user_id as "userId", min(step)::int as step
    from notifications
    where group_id = any(?::uuid[]) and ${TELLS} and (status in ('sent', 'pending') or is_in_doubt)
      and (channel_id is not null or user_id is not null)
    group by group_id, channel_id, user_id order by group_id, min(step), channel_id, user_id`,
    [[...groupIds]],
  );
  return rows;
}

export interface NewNotification {
  id: string;
  partnerId: string;
  orgId: string;
  groupId: string;
  policyId: string;
  step: number | null;
  reason: string;
  status: 'pending' | 'suppressed';
  channelId: string | null;
  userId: string | null;
  recipient: string;
  title: string;
  severity: AlertSeverity;
  alertCount: number;
  alertId: string | null;
  content: object;
  error: string | null;
}

export async function addNotifications(tx: Tx, notifications: readonly NewNotification[]): Promise<void> {
  await tx.raw(
    `insert into notifications (id, partner_id, org_id, group_id, policy_id, step, reason, status, channel_id, user_id,
      recipient, title, severity, alert_count, alert_id, content, error)
    select id, "partnerId", "orgId", "groupId", "policyId", step, reason, status, "channelId", "userId",
      recipient, title, severity, "alertCount", "alertId", content, error
    from jsonb_to_recordset(?::jsonb) as n (id uuid, "partnerId" uuid, "orgId" uuid, "groupId" uuid, "policyId" uuid,
      step smallint, reason text, status text, "channelId" uuid, "userId" uuid, recipient text, title text,
      severity text, "alertCount" integer, "alertId" uuid, content jsonb, error text)`,
    [JSON.stringify(notifications)],
  );
}
