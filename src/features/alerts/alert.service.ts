import { clock } from '../../clock.ts';
import type { Context } from '../../platform/context.ts';
import { containing, inTenant } from '../../platform/db/statement.ts';
import { AppError, notFound } from '../../platform/errors.ts';
import { toPage } from '../../platform/http/pagination.ts';
import { assertOrganizationAccess } from '../organizations/index.ts';
import { haystackOf, searchOf } from '../search/index.ts';
import type { Alert } from './alert.model.ts';
import {
  accessibleAlerts,
  accessibleAlertsWith,
  activeCauses,
  changeStatus,
  countAlerts,
} from './alert.queries.ts';
import type {
  AlertAction,
  AlertBulk,
  AlertCause,
  AlertNote,
  AlertOutcome,
  AlertQuery,
  AlertStatus,
  AlertSummary,
  CauseQuery,
  SummaryQuery,
} from './alert.schema.ts';

export async function listAlerts(ctx: Context, query: AlertQuery) {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  const alerts = accessibleAlertsWith(ctx, query)
    .orderBy([
      { column: 'raised_at', order: 'desc' },
      { column: 'id', order: 'desc' },
    ])
    .page(query.page - 1, query.limit);
  if (query.orgId !== undefined) void alerts.where('org_id', query.orgId);
  // The subject of such an alert is its device, and only the subject is indexed.
  if (query.deviceId !== undefined) void alerts.where('subject_id', query.deviceId).whereNotNull('device_id');
  if (query.kind !== undefined) void alerts.where('kind', query.kind);
  if (query.ruleId !== undefined) void alerts.where('rule_id', query.ruleId);
  if (query.from !== undefined) void alerts.where('raised_at', '>=', query.from);
  if (query.to !== undefined) void alerts.where('raised_at', '<=', query.to);
  if (query.search !== undefined) {
    const pattern = containing(query.search);
    void alerts.where((either) => void either.whereILike('title', pattern).orWhereILike('message', pattern));
  }
  return toPage(query, await alerts);
}

export async function readAlert(ctx: Context, id: string): Promise<Alert> {
  const alert = await accessibleAlerts(ctx).findById(id);
  if (alert === undefined) throw notFound('Alert');
  return alert;
}

export async function listCauses(ctx: Context, query: CauseQuery): Promise<AlertCause[]> {
  if (query.orgId !== undefined) await assertOrganizationAccess(ctx, query.orgId);
  return activeCauses(ctx, query);
}

/** The status from which an action is possible, and its result. */
const ACTIONS = {
  acknowledge: { from: ['active'], to: 'acknowledged', at: 'acknowledgedAt', by: 'acknowledgedBy' },
  resolve: { from: ['active', 'acknowledged'], to: 'resolved', at: 'resolvedAt', by: 'resolvedBy' },
} as const satisfies Record<
  AlertAction,
  { from: readonly AlertStatus[]; to: AlertStatus; at: string; by: string }
>;

export async function changeAlert(
  ctx: Context,
  id: string,
  action: AlertAction,
  { note }: AlertNote,
): Promise<Alert> {
  const before = await accessibleAlerts(ctx).findById(id).forNoKeyUpdate();
  if (before === undefined) throw notFound('Alert');
  const [changed] = await change(ctx, [id], action, note);
  if (changed === undefined) throw wrongState(action, before);
  ctx.recordChange(
    { status: before.status, note: before.note },
    { status: changed.status, note: changed.note },
  );
  return changed;
}

/** Changes all alerts that can be changed, and reports an outcome for each. */
export async function changeAlerts(ctx: Context, { alertIds, action, note }: AlertBulk) {
  const before = await accessibleAlerts(ctx)
    .findByIds([...alertIds])
    .orderBy('id')
    .forNoKeyUpdate();
  const alerts = await change(ctx, alertIds, action, note);
  const changed = new Map(alerts.map((alert) => [alert.id, alert]));
  const others = alertIds.filter((id) => !changed.has(id));
  const refused = new Map(
    (others.length === 0 ? [] : await accessibleAlerts(ctx).findByIds(others)).map((alert) => [
      alert.id,
      alert,
    ]),
  );
  const outcomes = alertIds.map((alertId): AlertOutcome => {
    const done = changed.get(alertId);
    if (done !== undefined) return { alertId, ok: true, status: done.status };
    const alert = refused.get(alertId);
    const { wireCode, message } = alert === undefined ? notFound('Alert') : wrongState(action, alert);
    return { alertId, ok: false, status: alert?.status ?? null, error: { code: wireCode, message } };
  });
  return { changed: alerts.length, outcomes, alerts, before };
}

/** Applies an action to those alerts whose status permits it. */
function change(
  ctx: Context,
  ids: readonly string[],
  action: AlertAction,
  note: string | undefined,
): PromiseLike<Alert[]> {
  const { from, to, at, by } = ACTIONS[action];
  return changeStatus(ctx, ids, from, {
    status: to,
    [at]: clock.date(),
    [by]: ctx.caller.userId,
    ...(note === undefined ? {} : { note }),
  });
}

function wrongState(action: AlertAction, { status }: Alert): AppError {
  const { from } = ACTIONS[action];
  return new AppError(
    'conflict',
    `This alert is ${status}; only ${from.join(' or ')} alerts can be ${ACTIONS[action].to}.`,
  );
}

export async function summarizeAlerts(ctx: Context, { orgId }: SummaryQuery): Promise<AlertSummary> {
  if (orgId !== undefined) await assertOrganizationAccess(ctx, orgId);
  const summary: AlertSummary = {
    open: 0,
    byStatus: { active: 0, acknowledged: 0, resolved: 0 },
    bySeverity: { critical: 0, high: 0, medium: 0, low: 0, info: 0 },
  };
  for (const { status, severity, count } of await countAlerts(ctx, orgId)) {
    summary.byStatus[status] += count;
    if (status === 'resolved') continue;
    summary.open += count;
    summary.bySeverity[severity] += count;
  }
  return summary;
}

export const alertSearch = searchOf({ type: 'alerts', permission: 'alerts:read' }, (caller) => ({
  table: 'alerts',
  where: inTenant(caller, 's.org_id'),
  haystack: haystackOf('s.title', 's.message'),
  title: 's.title',
  description: 's.message',
  order: `array[(s.status = 'resolved')::int, -extract(epoch from s.raised_at)]`,
}));
