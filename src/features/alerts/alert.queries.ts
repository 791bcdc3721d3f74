import type { PartialModelObject } from 'objection';
import type { Context } from '../../platform/context.ts';
import { inTenant } from '../../platform/db/statement.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { Alert } from './alert.model.ts';
import {
  type AlertCause,
  AlertSeverity,
  type AlertQuery,
  type AlertStatus,
  CAUSE_SHOWS,
  type CauseQuery,
} from './alert.schema.ts';
import type { TimelineSource } from '../timeline-source.ts';

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

/** An alert of a rule, which decides about its severity. */
export interface RuleAlert extends NewAlert {
  ruleId: string;
  autoResolve: boolean;
}

/** A cause that returns within this time after its alert resolved automatically reopens that alert. */
const SAME_WITHIN = `interval '1 hour'`;

/** Whether an alert occupies its subject and kind: it is open, or resolved by a user while its cause persists. */
export const STANDS = (a: string) => `(${a}.status <> 'resolved' or ${a}.cause_lasts)`;

/** SQL: the worst severity comes first. */
export const SEVERITY_RANK = (row: string): string =>
  `array_position(array[${SEVERITY_WORDS}], ${row}.severity)`;
const SEVERITY_WORDS = AlertSeverity.options.map((severity) => `'${severity}'`).join(', ');

/**
 * SQL that raises alerts and returns their ids. There is one standing alert per subject and kind; a repeated cause is
 * counted in it.
 * @param wanted  a query of org_id, device_id, kind, severity, title, message, details, cause_lasts, rule_id, auto_resolve
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
      message = f.message, details = f.details, cause_lasts = f.cause_lasts, rule_id = f.rule_id,
      auto_resolve = f.auto_resolve,
      -- An acknowledged alert stays acknowledged, unless it is worse now; one that a user resolved becomes active again.
      status = case when ${IS_NEWS} or a.acknowledged_at is null then 'active' else 'acknowledged' end,
      acknowledged_at = case when not ${IS_NEWS} then a.acknowledged_at end,
      acknowledged_by = case when not ${IS_NEWS} then a.acknowledged_by end,
      resolved_at = null, resolved_by = null, resolution = null
    from found f where a.id = f.alert_id
    returning a.id
  ), raised as (
    insert into alerts
      (id, org_id, device_id, kind, severity, title, message, details, cause_lasts, rule_id, auto_resolve)
    select new_row_id(), f.org_id, f.device_id, f.kind, f.severity, f.title, f.message, f.details, f.cause_lasts,
      f.rule_id, f.auto_resolve
    from found f where f.alert_id is null
    -- A concurrent transaction has just raised it.
    on conflict (subject_id, kind) where status <> 'resolved' or cause_lasts
      do update set count = alerts.count + 1, last_at = now(), updated_at = now()
    returning id
  )
  select id from again union all select id from raised`;

const IS_NEWS = `(a.status = 'resolved' and a.resolution is null or ${SEVERITY_RANK('f')} < ${SEVERITY_RANK('a')})`;

/**
 * SQL that ends the causes of alerts `a`. Those that are open are resolved with a reason, unless people have to resolve them.
 * @param why    an expression for the reason
 * @param which  the rest of the statement: other tables and the condition
 */
export const endCausesSql = (why: string, which: string): string =>
  `update alerts a set ${causeEndedSql(why)} ${which}`;

const causeEndedSql = (why: string): string => `cause_lasts = false, updated_at = now(),
  status = case when a.auto_resolve then 'resolved' else a.status end,
  resolved_at = case when a.auto_resolve then coalesce(a.resolved_at, now()) else a.resolved_at end,
  resolution = case when a.status = 'resolved' or not a.auto_resolve then a.resolution else ${why} end`;

/** SQL: new alerts, bound as JSON, as the rows `w` with their place in the list. */
const RECORDS = `rows from (jsonb_to_recordset(?::jsonb) as ("orgId" uuid, "deviceId" uuid, kind text, severity text,
      title text, message text, details jsonb, "ruleId" uuid, "autoResolve" boolean)) with ordinality
    as w (org_id, device_id, kind, severity, title, message, details, rule_id, auto_resolve, place)`;

const TEXTS = `left(w.title, 300) as title, left(w.message, 2000) as message, coalesce(w.details, '{}') as details`;

/**
 * Raises an alert that the server reports by itself, or counts it in the standing one for the same device and kind, and
 * returns its id. The rules for alerts of its kind may give it another severity; undefined if they refuse it. Used for causes that the rounds do not observe;
 * the feature must call `resolveAlert` when the cause ends.
 */
export async function raiseAlert(tx: Tx, alert: NewAlert): Promise<string | undefined> {
  const [id] = await raiseAlerts(tx, [alert]);
  return id;
}

/** Raises several alerts, of which no two may be about the same device and kind. */
export const raiseAlerts = (tx: Tx, alerts: readonly NewAlert[]): Promise<string[]> =>
  raiseReported(tx, alerts, { causeLasts: false });

async function raiseReported(
  tx: Tx,
  alerts: readonly NewAlert[],
  { causeLasts }: { causeLasts: boolean },
): Promise<string[]> {
  const records = JSON.stringify(alerts);
  const { rows } = await tx.raw<{ rows: { id: string }[] }>(
    raiseSql(`select w.org_id, w.device_id, w.kind, coalesce(rule.severity, w.severity) as severity, ${TEXTS},
      ${String(causeLasts)} as cause_lasts, rule.rule_id, coalesce(rule.auto_resolve, true) as auto_resolve
    from ${RECORDS}
    join rules_for_reported(?::jsonb) rule on rule.place = w.place
    where (rule.rule_id is not null or not rule.is_ruled) and ${notCoolingDown('w', 'rule')}`),
    [records, records],
  );
  return rows.map(({ id }) => id);
}

/**
 * SQL: whether an alert may be raised although the rule has raised one before. Looked up by the index of the subject:
 * `offset 0` keeps it from being joined, and `is not distinct from` from the index of the rule. While the statistics do not
 * know of the alerts yet, Postgres compares each one that is wanted with all of them otherwise.
 */
export const notCoolingDown = (wanted: string, rule: string): string => `not exists (
      select from alerts a where a.subject_id = coalesce(${wanted}.device_id, ${wanted}.org_id) and a.kind = ${wanted}.kind
        and a.rule_id is not distinct from ${rule}.rule_id
        and a.resolved_at > now() - make_interval(mins => ${rule}.cooldown_minutes) offset 0)`;

/** Raises alerts of rules, whose causes last until `endCauses` is called for them. Returns how many they were. */
export async function raiseOfRules(tx: Pick<Tx, 'raw'>, alerts: readonly RuleAlert[]): Promise<number> {
  const { rows } = await tx.raw<{ rows: unknown[] }>(
    raiseSql(`select w.org_id, w.device_id, w.kind, w.severity, ${TEXTS}, true as cause_lasts, w.rule_id, w.auto_resolve
    from ${RECORDS}`),
    [JSON.stringify(alerts)],
  );
  return rows.length;
}

/** Resolves the open alert of a device or organization and kind, if there is one. `why` is shown with it. */
export async function resolveAlert(
  tx: Tx,
  { orgId, deviceId, kind, why }: Pick<NewAlert, 'orgId' | 'deviceId' | 'kind'> & { why: string },
): Promise<boolean> {
  const { rowCount } = await tx.raw<{ rowCount: number }>(
    endCausesSql(
      'left(?, 300)',
      `where a.org_id = ? and a.subject_id = ? and a.kind = ? and a.status <> 'resolved' and a.auto_resolve`,
    ),
    [why, orgId, deviceId ?? orgId, kind],
  );
  return rowCount > 0;
}

/**
 * Raises alerts whose causes last until `endLastingAlerts` is called for their kind. An alert that a user resolves
 * before that is not raised again.
 */
export async function raiseLastingAlerts(tx: Tx, alerts: readonly NewAlert[]): Promise<void> {
  await raiseReported(tx, alerts, { causeLasts: true });
}

/** Ends the cause of all alerts of a kind, in all organizations. Those that are open are resolved with the reason. */
export async function endLastingAlerts(tx: Tx, { kind, why }: { kind: string; why: string }): Promise<void> {
  await tx.raw(endCausesSql('left(?, 300)', `where a.kind = ? and a.cause_lasts`), [why, kind]);
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
    endCausesSql(
      'left(?, 300)',
      `where a.subject_id = any(?::uuid[]) and a.kind = ? and a.status <> 'resolved' and a.auto_resolve
      and a.details @> ?::jsonb`,
    ),
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
    endCausesSql('left(?, 300)', `where a.kind = ? and a.cause_lasts and a.subject_id <> all(?::uuid[])`),
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

/** Gives alerts without a rule the severity of their cause. One that a user acknowledged or resolved becomes active again if it is now worse. */
async function followSeverity(tx: Tx, alerts: readonly NewAlert[]): Promise<void> {
  await tx.raw(
    `with changed as (
      select a.id, w.severity, w.title, w.message, w.details, ${SEVERITY_RANK('w')} < ${SEVERITY_RANK('a')} as is_worse
      from ${RECORDS} join alerts a on a.subject_id = coalesce(w.device_id, w.org_id) and a.kind = w.kind
      where ${STANDS('a')} and a.severity <> w.severity and a.rule_id is null
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

/** Alerts of a kind at a site that follow each other within this time have begun together. */
const TOGETHER_WITHIN = `interval '10 minutes'`;
/** The newest active alerts are looked at. */
const LOOKED_AT = 20_000;

/**
 * Active alerts by what has probably caused them, the worst first. Alerts that were raised together at a site are one
 * cause; of an organization's others, those of a kind are listed as one.
 */
export async function activeCauses(
  { tx, caller }: Context,
  { orgId, limit }: CauseQuery,
): Promise<AlertCause[]> {
  const { rows } = await tx.raw<{ rows: AlertCause[] }>(
    `with active as (
      select a.id, a.org_id, a.kind, a.title, a.raised_at, a.device_id, d.site_id, ${SEVERITY_RANK('a')} as rank,
        coalesce(d.display_name, d.hostname) as name
      from alerts a left join devices d on d.id = a.device_id
      where ${inTenant(caller, 'a.org_id')} and a.status = 'active' ${orgId === undefined ? '' : 'and a.org_id = :orgId'}
      order by a.raised_at desc limit ${LOOKED_AT}
    ), spaced as (
      select *, (raised_at - lag(raised_at) over (partition by org_id, site_id, kind order by raised_at, id)
        > ${TOGETHER_WITHIN})::int as begins
      from active
    ), numbered as (
      select *, coalesce(sum(begins) over (partition by org_id, site_id, kind order by raised_at, id), 0) as run
      from spaced
    ), sized as (
      select *, count(*) over (partition by org_id, site_id, kind, run) > 1 as together from numbered
    )
    select org_id as "orgId", kind, together as "isTogether",
      case when count(distinct site_id) = 1 and count(*) = count(site_id) then min(site_id::text)::uuid end as "siteId",
      (array[${SEVERITY_WORDS}])[min(rank)] as severity, count(*)::int as count,
      count(distinct device_id)::int as "deviceCount",
      case when min(title) = max(title) then min(title) end as title,
      min(raised_at) as "firstAt", max(raised_at) as "lastAt",
      to_jsonb((array_agg(id order by raised_at, id))[1:${CAUSE_SHOWS.alertIds}]) as "alertIds",
      to_jsonb((array_agg(jsonb_build_object('id', device_id, 'name', name) order by raised_at, id)
        filter (where device_id is not null))[1:${CAUSE_SHOWS.devices}]) as devices
    from sized
    group by org_id, kind, together, case when together then site_id end, case when together then run end
    order by min(rank), count(*) desc, max(raised_at) desc, org_id, kind, min(id::text) limit :limit`,
    { limit, ...(orgId === undefined ? {} : { orgId }) },
  );
  return rows.map((row) => ({ ...row, devices: row.devices ?? [] }));
}

export const alertTimeline: TimelineSource = {
  kind: 'alert',
  permission: 'alerts:read',
  // The subject of such an alert is its device, and only the subject is indexed.
  from: 'alerts t where t.subject_id = :deviceId and t.device_id is not null',
  id: 't.id::text',
  at: 't.raised_at',
  endedAt: 't.resolved_at',
  by: 'coalesce(t.resolved_by, t.acknowledged_by)',
  fields: { title: 't.title', severity: 't.severity', status: 't.status' },
};
