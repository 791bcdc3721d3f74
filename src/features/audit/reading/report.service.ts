import type { Context } from '../../../platform/context.ts';
import type { LogEntry, ReportQuery } from './audit.schema.ts';
import { entriesById, newestEntries, peopleOf, selectEntries } from './audit-query.ts';
import { newestFirst } from './scan-plan.ts';
import { logEntry } from './entry-row.ts';
import {
  COMPLIANCE_ACTIONS,
  compliance,
  type Counted,
  SECURITY_ACTIONS,
  securityEvents,
  stats,
  userActivity,
} from './reports.ts';

/** Reports count the newest 5,000 relevant entries (SPEC 4.10). */
const MAX_COUNTED = 5000;
const RECENT_SHOWN = 10;

async function counted(
  ctx: Context,
  range: ReportQuery,
  only: { actions?: readonly string[]; actorTypes?: readonly string[] } = {},
): Promise<Counted[]> {
  const { entries } = await newestEntries(ctx, range, {
    limit: MAX_COUNTED,
    only: (query) => {
      if (only.actions !== undefined) void query.whereIn('l.action', only.actions);
      if (only.actorTypes !== undefined) void query.whereIn('l.actor_type', only.actorTypes);
      return query;
    },
  });
  return newestFirst(entries).select<Counted[]>({
    id: 'l.id',
    timestamp: 'l.timestamp',
    actorId: 'l.actor_id',
    actorEmail: 'l.actor_email',
    action: 'l.action',
  });
}

async function recent(ctx: Context, entries: readonly Counted[]): Promise<LogEntry[]> {
  const ids = entries.slice(0, RECENT_SHOWN).map(({ id }) => id);
  const rows = await selectEntries(newestFirst(entriesById(ctx, ids)));
  const people = await peopleOf(ctx, rows);
  return rows.map((row) => logEntry(row, people));
}

/** Counts entries of people and of API keys, but not of agents or the system. */
export async function userActivityReport(ctx: Context, range: ReportQuery) {
  const entries = await counted(ctx, range, { actorTypes: ['user', 'api_key'] });
  return {
    ...userActivity(entries, await peopleOf(ctx, entries)),
    recentActivity: await recent(ctx, entries),
  };
}

export async function securityReport(ctx: Context, range: ReportQuery) {
  const entries = await counted(ctx, range, { actions: SECURITY_ACTIONS });
  return { ...securityEvents(entries), recentEvents: await recent(ctx, entries) };
}

export async function complianceReport(ctx: Context, range: ReportQuery) {
  const entries = await counted(ctx, range, { actions: COMPLIANCE_ACTIONS });
  return { ...compliance(entries), recentEvents: await recent(ctx, entries) };
}

export async function auditStats(ctx: Context, range: ReportQuery) {
  const entries = await counted(ctx, range);
  return stats(entries, await peopleOf(ctx, entries), range);
}
