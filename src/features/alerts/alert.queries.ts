import type { PartialModelObject } from 'objection';
import type { Context } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/statement.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { Alert } from './alert.model.ts';
import {
  AlertSeverity,
  type AlertQuery,
  type AlertStatus,
  type AlertSettings,
  DEFAULT_OFFLINE_AFTER_MINUTES,
  DEFAULT_DISK_PERCENT,
} from './alert.schema.ts';

export interface NewAlert {
  orgId: string;
  /** Undefined if the alert concerns the whole organization. */
  deviceId?: string;
  /** In lower case, such as backup_failed. */
  kind: string;
  severity: AlertSeverity;
  title: string;
  message: string;
  details?: Record<string, unknown>;
}

/** A cause that returns within this time after its alert resolved automatically reopens that alert. */
const SAME_WITHIN = `interval '1 hour'`;

/** Whether an alert occupies its subject and kind: it is open, or resolved by a user while its cause persists. */
export const STANDS = (a: string) => `(${a}.status <> 'resolved' or ${a}.cause_lasts)`;

/**
 * SQL that raises alerts and returns their ids. There is one standing alert per subject and kind; a repeated cause is
 * counted in it.
 * @param wanted  a query of org_id, device_id, kind, severity, title, message, details, cause_lasts
 */
export const raiseSql = (wanted: string): string => `
  with wanted as (${wanted}),
  found as (
    select w.*, coalesce(
      (select a.id from alerts a
        where a.subject_id = coalesce(w.device_id, w.org_id) and a.kind = w.kind and ${STANDS('a')}),
      (select a.id from alerts a
        where a.subject_id = coalesce(w.device_id, w.org_id) and a.kind = w.kind
          and a.resolution is not null and a.resolved_at > now() - ${SAME_WITHIN}
        order by a.raised_at desc limit 1)) as alert_id
    from wanted w
  ), again as (
    update alerts a set count = a.count + 1, last_at = now(), updated_at = now(), severity = f.severity, title = f.title,
      message = f.message, details = f.details, cause_lasts = f.cause_lasts,
      -- An acknowledged alert stays acknowledged; one that a user resolved becomes active again.
      status = case when ${RESOLVED_BY_USER} or a.acknowledged_at is null then 'active' else 'acknowledged' end,
      acknowledged_at = case when not ${RESOLVED_BY_USER} then a.acknowledged_at end,
      acknowledged_by = case when not ${RESOLVED_BY_USER} then a.acknowledged_by end,
      resolved_at = null, resolved_by = null, resolution = null
    from found f where a.id = f.alert_id
    returning a.id
  ), raised as (
    insert into alerts (id, org_id, device_id, kind, severity, title, message, details, cause_lasts)
    select new_row_id(), f.org_id, f.device_id, f.kind, f.severity, f.title, f.message, f.details, f.cause_lasts
    from found f where f.alert_id is null
    -- A concurrent transaction has just raised it.
    on conflict (subject_id, kind) where status <> 'resolved' or cause_lasts
      do update set count = alerts.count + 1, last_at = now(), updated_at = now()
    returning id
  )
  select id from again union all select id from raised`;

const RESOLVED_BY_USER = `(a.status = 'resolved' and a.resolution is null)`;

/** SQL: the columns to set when a cause ends. An open alert is resolved with a reason. */
export const causeEndedSql = (
  why: string,
): string => `cause_lasts = false, status = 'resolved', updated_at = now(),
  resolved_at = coalesce(a.resolved_at, now()),
  resolution = case when a.status = 'resolved' then a.resolution else ${why} end`;

/** SQL: new alerts, bound as JSON, as the rows `w`. */
const RECORDS = `jsonb_to_recordset(?::jsonb) as w ("orgId" uuid, "deviceId" uuid, kind text, severity text, title text,
      message text, details jsonb)`;

/** SQL: the worst severity comes first. */
const SEVERITY_RANK = (row: string): string =>
  `array_position(array[${AlertSeverity.options.map((severity) => `'${severity}'`).join(', ')}], ${row}.severity)`;

/**
 * Raises an alert, or counts it in the standing one for the same device and kind, and returns its id. Used for causes
 * that the rounds do not observe; the feature must call `resolveAlert` when the cause ends.
 */
export async function raiseAlert(tx: Tx, alert: NewAlert): Promise<string> {
  const [id] = await raiseAlerts(tx, [alert]);
  if (id === undefined) throw new Error(`alert ${alert.kind} was not raised`);
  return id;
}

/** Raises several alerts, of which no two may be about the same device and kind. */
export const raiseAlerts = (tx: Tx, alerts: readonly NewAlert[]): Promise<string[]> =>
  raiseMany(tx, alerts, { causeLasts: false });

async function raiseMany(
  tx: Tx,
  alerts: readonly NewAlert[],
  { causeLasts }: { causeLasts: boolean },
): Promise<string[]> {
  const { rows } = await tx.raw<{ rows: { id: string }[] }>(
    raiseSql(`select w."orgId" as org_id, w."deviceId" as device_id, w.kind, w.severity, left(w.title, 300) as title,
      left(w.message, 2000) as message, coalesce(w.details, '{}') as details, ${String(causeLasts)} as cause_lasts
    from ${RECORDS}`),
    [JSON.stringify(alerts)],
  );
  return rows.map(({ id }) => id);
}

/** Resolves the open alert of a device or organization and kind, if there is one. `why` is shown with it. */
export async function resolveAlert(
  tx: Tx,
  { orgId, deviceId, kind, why }: Pick<NewAlert, 'orgId' | 'deviceId' | 'kind'> & { why: string },
): Promise<boolean> {
  const { rowCount } = await tx.raw<{ rowCount: number }>(
    `update alerts a set ${causeEndedSql('left(?, 300)')}
    where a.org_id = ? and a.subject_id = ? and a.kind = ? and a.status <> 'resolved'`,
    [why, orgId, deviceId ?? orgId, kind],
  );
  return rowCount > 0;
}

/**
 * Raises alerts whose causes last until `endLastingAlerts` is called for their kind. An alert that a user resolves
 * before that is not raised again.
 */
export async function raiseLastingAlerts(tx: Tx, alerts: readonly NewAlert[]): Promise<void> {
  await raiseMany(tx, alerts, { causeLasts: true });
}

/** Ends the cause of all alerts of a kind, in all organizations. Those that are open are resolved with the reason. */
export async function endLastingAlerts(tx: Tx, { kind, why }: { kind: string; why: string }): Promise<void> {
  await tx.raw(`update alerts a set ${causeEndedSql('left(?, 300)')} where a.kind = ? and a.cause_lasts`, [
    why,
    kind,
  ]);
}

/** Resolves the open alerts of several devices. @param details  only alerts that have these are resolved */
export async function resolveAlerts(
  tx: Tx,
  {
    kind,
    deviceIds,
    details,
    why,
  }: { kind: string; deviceIds: readonly string[]; details: Record<string, unknown>; why: string },
): Promise<void> {
  await tx.raw(
    `update alerts a set ${causeEndedSql('left(?, 300)')}
    where a.subject_id = any(?::uuid[]) and a.kind = ? and a.status <> 'resolved' and a.details @> ?::jsonb`,
    [why, [...deviceIds], kind, JSON.stringify(details)],
  );
}

/** Whether an alert of the kind about the device is open. */
export async function standingAlert(
  tx: Tx,
  { deviceId, kind }: { deviceId: string; kind: string },
): Promise<boolean> {
  const open = await tx('alerts')
    .where({ subject_id: deviceId, kind })
    .whereNot('status', 'resolved')
    .first<{ id: string } | undefined>('id');
  return open !== undefined;
}

/** An alert that is open, or that a user resolved while its cause lasts. */
export interface StandingCause {
  isResolved: boolean;
  details: unknown;
}

/** The alerts of a kind whose cause lasts, in all organizations, by the device or organization that they are about. */
export async function standingCauses(tx: Tx, kind: string): Promise<Map<string, StandingCause>> {
  const { rows } = await tx.raw<{ rows: { subject: string; isResolved: boolean; details: unknown }[] }>(
    `select a.subject_id as subject, a.status = 'resolved' as "isResolved", a.details from alerts a
    where a.kind = ? and ${STANDS('a')}`,
    [kind],
  );
  return new Map(rows.map(({ subject, ...cause }) => [subject, cause]));
}

/**
 * Makes the alerts of a kind follow their causes, in all organizations: raises those that do not stand yet, gives those
 * that stand the severity of their cause, and ends the causes of those that are not wanted any more. One that a user
 * resolved is raised again while its cause lasts only if the cause becomes worse.
 * @param alerts  of the kind, at most one about each device or organization
 */
export async function followCauses(
  tx: Tx,
  { kind, alerts, why }: { kind: string; alerts: readonly NewAlert[]; why: string },
): Promise<{ raised: number; ended: number }> {
  const subjects = alerts.map(({ orgId, deviceId }) => deviceId ?? orgId);
  const { rowCount: ended } = await tx.raw<{ rowCount: number }>(
    `update alerts a set ${causeEndedSql('left(?, 300)')}
    where a.kind = ? and a.cause_lasts and a.subject_id <> all(?::uuid[])`,
    [why, kind, subjects],
  );
  const { rows } = await tx.raw<{ rows: { subject_id: string }[] }>(
    `select a.subject_id from alerts a where a.kind = ? and a.subject_id = any(?::uuid[]) and ${STANDS('a')}`,
    [kind, subjects],
  );
  const standing = new Set(rows.map(({ subject_id: subject }) => subject));
  const wanted = alerts.filter(({ orgId, deviceId }) => !standing.has(deviceId ?? orgId));
  if (wanted.length > 0) await raiseLastingAlerts(tx, wanted);
  if (wanted.length < alerts.length) await followSeverity(tx, alerts);
  return { raised: wanted.length, ended };
}

/** Gives alerts the severity of their cause. One that a user acknowledged or resolved becomes active again if it is now worse. */
async function followSeverity(tx: Tx, alerts: readonly NewAlert[]): Promise<void> {
  await tx.raw(
    `with changed as (
      select a.id, w.severity, w.title, w.message, w.details, ${SEVERITY_RANK('w')} < ${SEVERITY_RANK('a')} as is_worse
      from ${RECORDS} join alerts a on a.subject_id = coalesce(w."deviceId", w."orgId") and a.kind = w.kind
      where ${STANDS('a')} and a.severity <> w.severity
    )
    update alerts a set severity = c.severity, title = left(c.title, 300), message = left(c.message, 2000),
      details = coalesce(c.details, '{}'), last_at = now(), updated_at = now(),
      status = case when c.is_worse then 'active' else a.status end,
      acknowledged_at = case when not c.is_worse then a.acknowledged_at end,
      acknowledged_by = case when not c.is_worse then a.acknowledged_by end,
      resolved_at = case when not c.is_worse then a.resolved_at end,
      resolved_by = case when not c.is_worse then a.resolved_by end,
      resolution = case when not c.is_worse then a.resolution end
    from changed c where a.id = c.id`,
    [JSON.stringify(alerts)],
  );
}

/** The alerts that the caller may see. */
export const accessibleAlerts = (ctx: Context) =>
  Alert.query(ctx.tx).whereRaw(inTenant(ctx.caller, 'alerts.org_id'));

/** The alerts that the caller may see, limited to some statuses and severities. */
export const accessibleAlertsWith = (
  ctx: Context,
  { status, severity }: Partial<Pick<AlertQuery, 'status' | 'severity'>>,
) => {
  const alerts = accessibleAlerts(ctx);
  if (status !== undefined) void alerts.whereRaw('status = any(?::text[])', [status]);
  if (severity !== undefined) void alerts.whereRaw('severity = any(?::text[])', [severity]);
  return alerts;
};

/** Changes those alerts that have one of the statuses, in one statement, so that only one of two concurrent requests changes an alert. */
export const changeStatus = (
  ctx: Context,
  ids: readonly string[],
  from: readonly AlertStatus[],
  changes: PartialModelObject<Alert>,
): PromiseLike<Alert[]> =>
  accessibleAlerts(ctx)
    .patch(changes)
    .whereRaw('alerts.id = any(?::uuid[])', [[...ids]])
    .whereRaw('status = any(?::text[])', [[...from]])
    .returning('*');

/** The numbers of alerts by status and severity, of the tenant or of one of its organizations. */
export async function countAlerts(ctx: Context, orgId: string | undefined) {
  const { rows } = await ctx.tx.raw<{
    rows: { status: AlertStatus; severity: AlertSeverity; count: number }[];
  }>(
    `select status, severity, count(*)::int as count from alerts
    where ${inTenant(ctx.caller, 'org_id')} ${orgId === undefined ? '' : 'and org_id = ?'}
    group by status, severity`,
    orgId === undefined ? [] : [orgId],
  );
  return rows;
}

export type NamedSettings = AlertSettings & { name: string };

/** SQL: the thresholds of organization `o` with its settings `s`, if it has any. Null means disabled. */
export const OFFLINE_AFTER_SQL = `case when s.org_id is null then ${DEFAULT_OFFLINE_AFTER_MINUTES} else s.offline_after_minutes end`;
export const DISK_PERCENT_SQL = `case when s.org_id is null then ${DEFAULT_DISK_PERCENT} else s.disk_percent end`;

/** The alert settings of an organization, or the defaults; undefined if the caller may not see it. */
export async function settingsOf(ctx: Context, orgId: string): Promise<NamedSettings | undefined> {
  const { rows } = await ctx.tx.raw<{ rows: NamedSettings[] }>(
    `select o.name, ${OFFLINE_AFTER_SQL} as "offlineAfterMinutes", ${DISK_PERCENT_SQL} as "diskPercent"
    from organizations o left join alert_settings s on s.org_id = o.id
    where o.id = ? and o.deleted_at is null and ${inTenant(ctx.caller, 'o.id')}`,
    [orgId],
  );
  return rows[0];
}
