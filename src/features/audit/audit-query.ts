import type { Context } from '../../platform/context.ts';
import { containing } from '../../platform/db/like-pattern.ts';
import type { Query } from '../../platform/db/pool.ts';
import { notFound } from '../../platform/errors.ts';
import { knownPeople } from '../users/index.ts';
import type { EntryFilter, EntryQuery, FullEntry, LogEntry, Pages, ShownEntry } from './audit.schema.ts';
import { type EntryRow, fullEntry, logEntry, type People, shownEntry } from './entry-row.ts';

/** Reading the trail: what the caller may see of it, narrowed down, newest first. */

const COLUMNS = {
  id: 'l.id',
  orgId: 'l.org_id',
  partnerId: 'l.partner_id',
  timestamp: 'l.timestamp',
  actorType: 'l.actor_type',
  actorId: 'l.actor_id',
  actorEmail: 'l.actor_email',
  action: 'l.action',
  resourceType: 'l.resource_type',
  resourceId: 'l.resource_id',
  resourceName: 'l.resource_name',
  details: 'l.details',
  ipAddress: 'l.ip_address',
  userAgent: 'l.user_agent',
  result: 'l.result',
  errorMessage: 'l.error_message',
  seq: 'l.seq',
  checksum: 'l.checksum',
  prevChecksum: 'l.prev_checksum',
};

/**
 * An organization's people see its entries; a partner's those of the organizations they may act in, and what concerns
 * the partner itself. Row level security is the net under it.
 */
export function visibleEntries({ tx, caller }: Context): Query {
  const entries: Query = tx('audit_logs as l');
  if (caller.scope === 'system') return entries;
  if (caller.scope === 'organization') return entries.where('l.org_id', caller.orgId);
  return entries.whereRaw(
    `(l.org_id = any((select app_org_ids())::uuid[])
      or (l.org_id is null and l.partner_id = (select app_partner_id())))`,
  );
}

export function narrowed(query: Query, filter: EntryFilter): Query {
  const { user, action, resource, userId, q, from, to } = filter;
  if (from !== undefined) void query.where('l.timestamp', '>=', from);
  if (to !== undefined) void query.where('l.timestamp', '<=', to);
  if (action !== undefined) void query.where('l.action', action);
  if (userId !== undefined) void query.where('l.actor_id', userId);
  if (user !== undefined) {
    void query.whereRaw(
      '(l.actor_email ilike :user or l.actor_id in (select id from users where name ilike :user))',
      { user: containing(user) },
    );
  }
  if (resource !== undefined) {
    void query.whereRaw('(lower(l.resource_type) = lower(:type) or l.resource_name ilike :name)', {
      type: resource,
      name: containing(resource),
    });
  }
  if (q !== undefined) {
    void query.whereRaw(
      `(l.action ilike :q or l.actor_email ilike :q or l.resource_type ilike :q or l.resource_name ilike :q
        or l.details::text ilike :q)`,
      { q: containing(q) },
    );
  }
  return query;
}

export const newestFirst = (query: Query): Query => query.orderByRaw('l.timestamp desc, l.id desc');

export const selectEntries = (query: Query): PromiseLike<EntryRow[]> => query.select<EntryRow[]>(COLUMNS);

export const peopleOf = (ctx: Context, rows: readonly { actorId: string }[]): Promise<People> =>
  knownPeople(
    ctx,
    rows.map(({ actorId }) => actorId),
  );

interface Found {
  rows: EntryRow[];
  people: People;
  pagination: Pages;
}

async function page(ctx: Context, { page: number, limit, skipCount, ...filter }: EntryQuery): Promise<Found> {
  const found = narrowed(visibleEntries(ctx), filter);
  const rows = await selectEntries(
    newestFirst(found.clone())
      .limit(limit)
      .offset((number - 1) * limit),
  );
  const pagination: Pages = { page: number, limit };
  if (!skipCount) {
    const [counted] = await found.select<{ total: number }[]>(ctx.tx.raw('count(*)::int as total'));
    pagination.total = counted?.total ?? 0;
    pagination.totalPages = Math.ceil(pagination.total / limit);
  }
  return { rows, people: await peopleOf(ctx, rows), pagination };
}

export async function showEntries(
  ctx: Context,
  query: EntryQuery,
): Promise<{ entries: ShownEntry[]; pagination: Pages }> {
  const { rows, people, pagination } = await page(ctx, query);
  return { entries: rows.map((row) => shownEntry(row, people)), pagination };
}

export async function listEntries(
  ctx: Context,
  query: EntryQuery & Pick<EntryFilter, 'q'>,
): Promise<{ data: LogEntry[]; pagination: Pages }> {
  const { rows, people, pagination } = await page(ctx, query);
  return { data: rows.map((row) => logEntry(row, people)), pagination };
}

export async function readEntry(ctx: Context, id: string): Promise<FullEntry> {
  const [row] = await selectEntries(visibleEntries(ctx).where('l.id', id));
  if (row === undefined) throw notFound('Audit entry');
  return fullEntry(row, await peopleOf(ctx, [row]));
}
