import type { Tx } from '../../platform/db/transaction.ts';
import type { AlertSeverity } from './alert.schema.ts';

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
      status = case when ${RESOLVED_BY_SOMEBODY} or a.acknowledged_at is null then 'active' else 'acknowledged' end,
      acknowledged_at = case when not ${RESOLVED_BY_SOMEBODY} then a.acknowledged_at end,
      acknowledged_by = case when not ${RESOLVED_BY_SOMEBODY} then a.acknowledged_by end,
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

const RESOLVED_BY_SOMEBODY = `(a.status = 'resolved' and a.resolution is null)`;

/** SQL: the columns to set when a cause ends. An open alert is resolved with a reason. */
export const causeEndedSql = (
  why: string,
): string => `cause_lasts = false, status = 'resolved', updated_at = now(),
  resolved_at = coalesce(a.resolved_at, now()),
  resolution = case when a.status = 'resolved' then a.resolution else ${why} end`;

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

/**
 * Raises an alert, or counts it in the standing one for the same device and kind, and returns its id. Used for causes
 * that the rounds do not observe; the feature must call `resolveAlert` when the cause ends.
 */
export async function raiseAlert(tx: Tx, alert: NewAlert): Promise<string> {
  const { orgId, deviceId, kind, severity, title, message, details = {} } = alert;
  const { rows } = await tx.raw<{ rows: { id: string }[] }>(
    raiseSql(`select ?::uuid as org_id, ?::uuid as device_id, ? as kind, ? as severity, left(?, 300) as title,
      left(?, 2000) as message, ?::jsonb as details, false as cause_lasts`),
    [orgId, deviceId ?? null, kind, severity, title, message, JSON.stringify(details)] as string[],
  );
  const [raised] = rows;
  if (raised === undefined) throw new Error(`alert ${kind} was not raised`);
  return raised.id;
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
