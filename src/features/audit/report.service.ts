import type { Context } from '../../platform/context.ts';
import { type LogEntry, type ReportQuery, type Stats, categoryOf } from './audit.schema.ts';
import {
  entriesById,
  newestEntries,
  peopleOf,
  selectEntries,
  logEntry,
  type People,
} from './audit.queries.ts';
import { newestFirst } from './audit-scan.queries.ts';
import type { z } from 'zod';

/** Reports count the newest 5,000 relevant entries (SPEC 4.10). */
const MAX_COUNTED = 5000;

const RECENT_SHOWN = 10;

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

/** The arithmetic of reports, independent of the database. */

const SECURITY_ACTIONS = [
  'user.login',
  'user.login.failed',
  'user.permission.change',
  'policy.update',
  'policy.create',
  'policy.evaluate',
  'automation.policy.evaluate',
  'agent.source.ip.changed',
] as const;

const COMPLIANCE_ACTIONS = [
  'data.access',
  'data.export',
  'device.create',
  'device.delete',
  'policy.update',
  'policy.evaluate',
  'automation.policy.evaluate',
  'script.execute',
  'organization.update',
] as const;

const CHANGES = new Set(['device.create', 'device.delete', 'policy.update', 'organization.update']);

/** The fields of an entry that reports use. Entries are passed newest first. */
interface Counted {
  id: string;
  timestamp: Date;
  actorId: string;
  actorEmail: string | null;
  action: string;
}

/** Counts each key; most frequent first, ties by name. */
function tally(keys: readonly string[]): [key: string, count: number][] {
  const counts = new Map<string, number>();
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
  return [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
}

const byAction = (entries: readonly Counted[]) =>
  tally(entries.map(({ action }) => action)).map(([action, count]) => ({ action, count }));

const countOf = (entries: readonly Counted[], ...actions: readonly string[]) =>
  entries.filter(({ action }) => actions.includes(action)).length;

const TOP_USERS = 5;

function userActivity(entries: readonly Counted[], people: People) {
  const latest = new Map<string, Counted>();
  for (const entry of entries) if (!latest.has(entry.actorId)) latest.set(entry.actorId, entry);
  const actionsPerUser = tally(entries.map(({ actorId }) => actorId)).flatMap(([userId, actionCount]) => {
    const last = latest.get(userId);
    if (last === undefined) return [];
    const person = people.get(userId);
    return {
      userId,
      userName: person?.name ?? null,
      userEmail: last.actorEmail ?? person?.email ?? null,
      actionCount,
      lastActiveAt: last.timestamp.toISOString(),
    };
  });
  return {
    totalUsers: actionsPerUser.length,
    totalEvents: entries.length,
    actionsPerUser,
    topUsers: actionsPerUser.slice(0, TOP_USERS),
  };
}

const securityEvents = (entries: readonly Counted[]) => ({
  totalEvents: entries.length,
  loginAttempts: countOf(entries, 'user.login', 'user.login.failed'),
  failedLogins: countOf(entries, 'user.login.failed'),
  permissionChanges: countOf(entries, 'user.permission.change'),
  byAction: byAction(entries),
});

const compliance = (entries: readonly Counted[]) => ({
  totalEvents: entries.length,
  dataAccess: countOf(entries, 'data.access'),
  dataChanges: entries.filter(({ action }) => CHANGES.has(action)).length,
  exports: countOf(entries, 'data.export'),
  byAction: byAction(entries),
});

/** An open end of the requested range is reported as the time of the first or last counted entry. */
function stats(
  entries: readonly Counted[],
  people: People,
  { from, to }: { from?: Date | undefined; to?: Date | undefined },
): z.infer<typeof Stats> {
  return {
    totalEvents: entries.length,
    byCategory: tally(entries.map(({ action }) => categoryOf(action))).map(([category, count]) => ({
      category: category as ReturnType<typeof categoryOf>,
      count,
    })),
    byUser: tally(entries.map(({ actorId }) => actorId)).map(([userId, actionCount]) => ({
      userId,
      userName: people.get(userId)?.name ?? null,
      actionCount,
    })),
    range: {
      from: (from ?? entries.at(-1)?.timestamp)?.toISOString() ?? null,
      to: (to ?? entries[0]?.timestamp)?.toISOString() ?? null,
    },
  };
}
