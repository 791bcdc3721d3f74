import type { Context } from '../../../platform/context.ts';
import { containing } from '../../../platform/db/like-pattern.ts';
import type { Query } from '../../../platform/db/pool.ts';
import { notFound } from '../../../platform/errors.ts';
import { knownPeople } from '../../users/index.ts';
import type { EntryFilter, EntryQuery, FullEntry, LogEntry, Pages, ShownEntry } from './audit.schema.ts';
import {
  entriesIn,
  newestFirst,
  newestIn,
  type ScanPlan,
  planScan,
  planCount,
  type Streams,
} from './scan-plan.ts';
import { type EntryRow, fullEntry, logEntry, type People, shownEntry } from './entry-row.ts';
import { byResource, byUser } from '../name-index/name-search.ts';

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
function visible({ caller }: Context, entries: Query): Query {
  if (caller.scope === 'system') return entries;
  if (caller.scope === 'organization') return entries.where('l.chain_id', caller.orgId);
  return entries.whereRaw('l.chain_id = any((select app_chain_ids())::uuid[])');
}

/** Those of these ids that the caller sees, in no order. */
export const entriesById = (ctx: Context, ids: readonly string[]): Query =>
  oneByOne(ctx, 'unnest(?::uuid[]) as chosen (id)', [...ids]);

/** Postgres takes what a caller sees for little, and would rather look for many ids in all of it. */
function oneByOne(ctx: Context, source: string, chosen: string[] | Query): Query {
  const one = 'cross join lateral (select * from audit_logs where id = chosen.id limit 1) as l';
  return visible(ctx, ctx.tx.from(ctx.tx.raw(source, [chosen])).joinRaw(one));
}

function narrowed(query: Query, filter: EntryFilter): Query {
  const { user, action, resource, userId, q, from, to } = filter;
  if (from !== undefined) void query.where('l.timestamp', '>=', from);
  if (to !== undefined) void query.where('l.timestamp', '<=', to);
  if (action !== undefined) void query.where('l.action', action);
  if (userId !== undefined) void query.where('l.actor_id', userId);
  if (user !== undefined) void query.whereRaw(...byUser('l', user));
  if (resource !== undefined) void query.whereRaw(...byResource('l', resource));
  if (q !== undefined) void query.whereRaw(byText('l'), { q: containing(q) });
  return query;
}

const byText = (entry: string) =>
  `(${['action', 'actor_email', 'resource_type', 'resource_name', 'details::text']
    .map((text) => `${entry}.${text} ilike :q`)
    .join(' or ')})`;

/** Without what every entry of the streams meets: to look at it would be to read the entries themselves. */
const withoutImplied = (filter: EntryFilter, { implied }: Streams): EntryFilter =>
  implied === undefined ? filter : { ...filter, [implied]: undefined };

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

interface Part {
  limit: number;
  /** The number of the last one; `limit` unless told otherwise. */
  through?: number;
  /** What the filter has no words for. */
  only?: (entries: Query) => Query;
}

/** The ids of the newest entries that the filter leaves, or of a part further down, in order. */
async function choose(
  ctx: Context,
  filter: EntryFilter,
  { limit, through = limit, only = (entries) => entries }: Part,
): Promise<{ chosen: Query; places: ScanPlan }> {
  const places = await planScan(ctx, filter);
  const { streams } = places;
  const offset = through - limit;
  const fitting = (asked: EntryFilter) => (entries: Query) => only(narrowed(entries, asked));
  const chosen =
    streams === undefined
      ? newestFirst(fitting(filter)(entriesOf(ctx, places)))
          .select('l.id')
          .limit(limit)
          .offset(offset)
      : newestIn(ctx, streams, { offset, through, fitting: fitting(withoutImplied(filter, streams)) });
  return { chosen, places };
}

export async function newestIds(ctx: Context, filter: EntryFilter, part: Part): Promise<string[]> {
  const { chosen, places } = await choose(ctx, filter, part);
  return places.isUnselective ? scanNewestFirst(ctx, chosen) : idsOf(chosen);
}

/** In no order yet. */
export async function newestEntries(
  ctx: Context,
  filter: EntryFilter,
  part: Part,
): Promise<{ entries: Query; places: ScanPlan }> {
  const { chosen, places } = await choose(ctx, filter, part);
  const entries = places.isUnselective
    ? entriesById(ctx, await scanNewestFirst(ctx, chosen))
    : oneByOne(ctx, '(?) as chosen', chosen);
  return { entries, places };
}

async function idsOf(chosen: Query): Promise<string[]> {
  const rows = (await chosen) as { id: string }[];
  return rows.map(({ id }) => id);
}

/**
 * For Postgres a part of a name is rare: it would look at all there is and sort it, where a walk from the newest soon has
 * enough.
 */
async function scanNewestFirst({ tx }: Context, chosen: Query): Promise<string[]> {
  await tx.raw('set local enable_sort = off; set local jit = off');
  const ids = await idsOf(chosen);
  await tx.raw('set local enable_sort = on; set local jit = on');
  return ids;
}

/** The chains are named one by one: how much there is in them decides how Postgres looks for entries. */
function entriesOf({ tx }: Context, { chains }: ScanPlan): Query {
  const entries: Query = tx('audit_logs as l');
  return chains === undefined ? entries : entries.whereRaw('l.chain_id = any(?::uuid[])', [chains]);
}

async function page(ctx: Context, { page: number, limit, skipCount, ...filter }: EntryQuery): Promise<Found> {
  const { entries, places } = await newestEntries(ctx, filter, { limit, through: number * limit });
  const rows = await selectEntries(newestFirst(entries));
  const pagination: Pages = { page: number, limit };
  if (!skipCount) {
    const shown = rows.length === 0 ? 0 : (number - 1) * limit + rows.length;
    Object.assign(pagination, await totalOf(ctx, filter, places, shown));
    pagination.totalPages = Math.ceil((pagination.total ?? 0) / limit);
  }
  return { rows, people: await peopleOf(ctx, rows), pagination };
}

/**
 * So many entries that a filter leaves are counted, for a text so many are read; where there are more, the total is what
 * there are at the least. That takes a quarter of a second, and any number might take minutes.
 */
const MOST = { counted: 1_000_000, read: 100_000 };

/** @param shown  There are as many at the least. */
export async function totalOf(
  ctx: Context,
  { q, ...filter }: EntryFilter,
  places: ScanPlan,
  shown: number,
  { counted, read } = MOST,
): Promise<Pick<Pages, 'total' | 'totalIsMinimum'>> {
  if (q === undefined && Object.values(filter).every((value) => value === undefined)) {
    return { total: await totalOfChains(ctx) };
  }
  const most = q === undefined ? counted : read;
  const { streams, isCut } = await planCount(ctx, filter, places);
  const some = entriesIn(ctx, streams, (entries) =>
    narrowed(entries, withoutImplied(filter, streams))
      .select(q === undefined ? 'l.id' : 'l.*')
      .limit(most + 1),
  )
    .select('e.*')
    .limit(most + 1);
  const fitting = q === undefined ? 'true' : byText('e');
  const [found] = await ctx.tx.from(some.as('e')).select<{ total: number; looked: number }[]>(
    ctx.tx.raw(`count(*)::int as looked, count(*) filter (where ${fitting})::int as total`, {
      q: containing(q ?? ''),
    }),
  );
  const { total = 0, looked = 0 } = found ?? {};
  if (looked <= most && !isCut) return { total };
  return { total: Math.max(Math.min(total, most), shown), totalIsMinimum: true };
}

/** A chain has no gaps: its head tells how many there are, less those that were pruned. */
async function totalOfChains({ tx, caller }: Context): Promise<number> {
  const heads: Query = tx('audit_chain_heads as h');
  if (caller.scope === 'organization') void heads.where('h.chain_id', caller.orgId);
  if (caller.scope === 'partner') void heads.whereRaw('h.chain_id = any((select app_chain_ids())::uuid[])');
  const [counted] = await heads.select<{ total: number }[]>(
    tx.raw(
      `coalesce(sum(h.seq - coalesce((select max(c.seq) from audit_checkpoints c
        where c.chain_id = h.chain_id and c.kind = 'cut'), 0)), 0)::int as total`,
    ),
  );
  return counted?.total ?? 0;
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
  const [row] = await selectEntries(entriesById(ctx, [id]));
  if (row === undefined) throw notFound('Audit entry');
  return fullEntry(row, await peopleOf(ctx, [row]));
}
