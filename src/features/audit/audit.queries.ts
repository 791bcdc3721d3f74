import type { Context } from '../../platform/context.ts';
import { containing } from '../../platform/db/statement.ts';
import type { Query, Db } from '../../platform/db/pool.ts';
import { notFound } from '../../platform/errors.ts';
import { knownPeople, type KnownPerson } from '../users/index.ts';
import {
  type EntryFilter,
  type EntryQuery,
  type FullEntry,
  type LogEntry,
  type Pages,
  type ShownEntry,
  categorySql,
  categoryOf,
} from './audit.schema.ts';
import {
  entriesIn,
  newestFirst,
  newestIn,
  type ScanPlan,
  planScan,
  planCount,
  type Streams,
  byResource,
  byUser,
} from './audit-scan.queries.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import { ZERO_UUID } from './chain.ts';
import type { TimelineSource } from '../timeline-source.ts';

/**
 * In organization scope, callers see the entries of their organization; in partner scope, those of their accessible
 * organizations and of the partner itself. Row level security enforces the same rule again.
 */
function visible({ caller }: Context, entries: Query): Query {
  if (caller.scope === 'system') return entries;
  if (caller.scope === 'organization') return entries.where('l.chain_id', caller.orgId);
  return entries.whereRaw('l.chain_id = any((select app_chain_ids())::uuid[])');
}

/** The entries with these ids that the caller can see, unordered. */
export const entriesById = (ctx: Context, ids: readonly string[]): Query =>
  oneByOne(ctx, 'unnest(?::uuid[]) as chosen (id)', [...ids]);

/** Looks up each id by index. Postgres underestimates what a caller can see and would otherwise scan all of it. */
function oneByOne(ctx: Context, source: string, chosen: string[] | Query): Query {
  const one = 'cross join lateral (select * from audit_logs where id = chosen.id limit 1) as l';
  return visible(ctx, ctx.tx.from(ctx.tx.raw(source, [chosen])).joinRaw(one));
}

function narrowed(query: Query, filter: EntryFilter): Query {
  const { user, action, resource, category, userId, q, from, to } = filter;
  if (from !== undefined) void query.where('l.timestamp', '>=', from);
  if (to !== undefined) void query.where('l.timestamp', '<=', to);
  if (action !== undefined) void query.where('l.action', action);
  if (category !== undefined) void query.whereRaw(`${categorySql('l.action')} = ?`, category);
  if (userId !== undefined) void query.where('l.actor_id', userId);
  if (user !== undefined) void query.whereRaw(...byUser('l', user));
  if (resource !== undefined) void query.whereRaw(...byResource('l', resource));
  if (q !== undefined) void query.whereRaw(byText('l'), { q: containing(q) });
  return query;
}

const byText = (entry: string) =>
  `(${['action', 'actor_email', 'resource_type', 'resource_id::text', 'resource_name', 'details::text']
    .map((text) => `${entry}.${text} ilike :q`)
    .join(' or ')})`;

/** The filter without the part that all entries of the streams satisfy: testing it again would require reading the entries. */
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
  /** The position of the last entry; defaults to `limit`. */
  through?: number;
  /** Further conditions that the filter cannot express. */
  only?: (entries: Query) => Query;
}

/** A query for the ids of the newest matching entries, or of a later part of them, in order. */
async function choose(
  ctx: Context,
  filter: EntryFilter,
  { limit, through = limit, only = (entries) => entries }: Part,
): Promise<{ chosen: Query; plan: ScanPlan }> {
  const plan = await planScan(ctx, filter);
  const { streams } = plan;
  const offset = through - limit;
  const matching = (remaining: EntryFilter) => (entries: Query) => only(narrowed(entries, remaining));
  const chosen =
    streams === undefined
      ? newestFirst(matching(filter)(entriesOf(ctx, plan)))
          .select('l.id')
          .limit(limit)
          .offset(offset)
      : newestIn(ctx, streams, { offset, through, matching: matching(withoutImplied(filter, streams)) });
  return { chosen, plan };
}

export async function newestIds(ctx: Context, filter: EntryFilter, part: Part): Promise<string[]> {
  const { chosen, plan } = await choose(ctx, filter, part);
  return plan.isUnselective ? scanNewestFirst(ctx, chosen) : idsOf(chosen);
}

/** The newest matching entries, unordered, with the plan that found them. */
export async function newestEntries(
  ctx: Context,
  filter: EntryFilter,
  part: Part,
): Promise<{ entries: Query; plan: ScanPlan }> {
  const { chosen, plan } = await choose(ctx, filter, part);
  const entries = plan.isUnselective
    ? entriesById(ctx, await scanNewestFirst(ctx, chosen))
    : oneByOne(ctx, '(?) as chosen', chosen);
  return { entries, plan };
}

async function idsOf(chosen: Query): Promise<string[]> {
  const rows = (await chosen) as { id: string }[];
  return rows.map(({ id }) => id);
}

/**
 * Runs the query without sorting. Postgres assumes that few entries match part of a name and would read and sort all of
 * them; when many match, following the index from the newest entry finds enough much sooner.
 */
async function scanNewestFirst({ tx }: Context, chosen: Query): Promise<string[]> {
  await tx.raw('set local enable_sort = off; set local jit = off');
  const ids = await idsOf(chosen);
  await tx.raw('set local enable_sort = on; set local jit = on');
  return ids;
}

/** Lists the chains explicitly, so that Postgres plans with the statistics of these chains. */
function entriesOf({ tx }: Context, { chains }: ScanPlan): Query {
  const entries: Query = tx('audit_logs as l');
  return chains === undefined ? entries : entries.whereRaw('l.chain_id = any(?::uuid[])', [chains]);
}

async function page(ctx: Context, { page: number, limit, skipCount, ...filter }: EntryQuery): Promise<Found> {
  const { entries, plan } = await newestEntries(ctx, filter, { limit, through: number * limit });
  const rows = await selectEntries(newestFirst(entries));
  const pagination: Pages = { page: number, limit };
  if (!skipCount) {
    const shown = rows.length === 0 ? 0 : (number - 1) * limit + rows.length;
    Object.assign(pagination, await totalOf(ctx, filter, plan, shown));
    pagination.totalPages = Math.ceil((pagination.total ?? 0) / limit);
  }
  return { rows, people: await peopleOf(ctx, rows), pagination };
}

/**
 * The limits of a total: matching entries counted by index, and entries read when a text is searched in them. Beyond the
 * limit the total is a lower bound. Counting to the limit takes a quarter of a second; without it, it could take minutes.
 */
const COUNT_LIMITS = { counted: 1_000_000, read: 100_000 };

/** @param shown  the number of entries already known to match */
export async function totalOf(
  ctx: Context,
  { q, orgId, ...filter }: EntryFilter,
  plan: ScanPlan,
  shown: number,
  { counted, read } = COUNT_LIMITS,
): Promise<Pick<Pages, 'total' | 'totalIsMinimum'>> {
  if (q === undefined && Object.values(filter).every((value) => value === undefined)) {
    return { total: await totalOfChains(ctx, orgId) };
  }
  const max = q === undefined ? counted : read;
  const { streams, isPartial } = await planCount(ctx, filter, plan);
  const some = entriesIn(ctx, streams, (entries) =>
    narrowed(entries, withoutImplied(filter, streams))
      .select(q === undefined ? 'l.id' : 'l.*')
      .limit(max + 1),
  )
    .select('e.*')
    .limit(max + 1);
  const matches = q === undefined ? 'true' : byText('e');
  const [found] = await ctx.tx.from(some.as('e')).select<{ total: number; examined: number }[]>(
    ctx.tx.raw(`count(*)::int as examined, count(*) filter (where ${matches})::int as total`, {
      q: containing(q ?? ''),
    }),
  );
  const { total = 0, examined = 0 } = found ?? {};
  if (examined <= max && !isPartial) return { total };
  return { total: Math.max(Math.min(total, max), shown), totalIsMinimum: true };
}

/** A chain has no gaps, so its length is the position of its head minus that of its latest cut. */
async function totalOfChains({ tx, caller }: Context, orgId: string | undefined): Promise<number> {
  const heads: Query = tx('audit_chain_heads as h');
  if (caller.scope === 'organization') void heads.where('h.chain_id', caller.orgId);
  if (caller.scope === 'partner') void heads.whereRaw('h.chain_id = any((select app_chain_ids())::uuid[])');
  if (orgId !== undefined) void heads.where('h.chain_id', orgId);
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

/** When the operator last did something from the command line, as the trail has it; sealed or not yet. */
export function lastOperatorEntry(db: Db, action: string): Promise<Date | undefined> {
  return withSystem(db, 'the last entry of an action of the operator', async (tx) => {
    const { rows } = await tx.raw(
      `select max(at) as at from (
        (select "timestamp" as at from audit_logs where chain_id = ? and action = ? order by "timestamp" desc limit 1)
        union all select max("timestamp") from audit_outbox where chain_id = ? and action = ?) entries`,
      [ZERO_UUID, action, ZERO_UUID, action],
    );
    const at: unknown = rows[0]?.at;
    return at instanceof Date ? at : undefined;
  });
}

/** Reads the entries of the trail that the caller may see and that match a filter, newest first. */

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

/** A stored entry, and its forms in responses. */
interface EntryRow {
  id: string;
  orgId: string | null;
  partnerId: string | null;
  timestamp: Date;
  actorType: FullEntry['actorType'];
  actorId: string;
  actorEmail: string | null;
  action: string;
  resourceType: string;
  resourceId: string | null;
  resourceName: string | null;
  details: Record<string, unknown>;
  ipAddress: string | null;
  userAgent: string | null;
  result: LogEntry['result'];
  errorMessage: string | null;
  seq: string;
  checksum: string;
  prevChecksum: string | null;
}

export type People = ReadonlyMap<string, KnownPerson>;

function shownEntry(row: EntryRow, people: People): ShownEntry {
  const person = people.get(row.actorId);
  const { before = null, after = null, sessionId } = row.details;
  return {
    id: row.id,
    timestamp: row.timestamp.toISOString(),
    action: row.action,
    resource: row.resourceName ?? row.resourceId ?? row.resourceType,
    resourceType: row.resourceType,
    details: JSON.stringify(row.details),
    ipAddress: row.ipAddress,
    userAgent: row.userAgent,
    sessionId: typeof sessionId === 'string' ? sessionId : null,
    user: {
      name: person?.name ?? null,
      email: row.actorEmail ?? person?.email ?? null,
      role: person?.roleName ?? null,
      // Required by SPEC 4.10; users have no department.
      department: null,
    },
    changes: { before, after },
  };
}

export function logEntry(row: EntryRow, people: People): LogEntry {
  const person = people.get(row.actorId);
  return {
    id: row.id,
    timestamp: row.timestamp.toISOString(),
    user: {
      id: row.actorId,
      name: person?.name ?? null,
      email: row.actorEmail ?? person?.email ?? null,
      role: person?.roleName ?? null,
    },
    action: row.action,
    resource: { type: row.resourceType, id: row.resourceId, name: row.resourceName },
    category: categoryOf(row.action),
    result: row.result,
    ipAddress: row.ipAddress,
    userAgent: row.userAgent,
    details: row.details,
  };
}

export function fullEntry(row: EntryRow, people: People): FullEntry {
  const { orgId, partnerId, actorType, actorId, errorMessage, seq, checksum, prevChecksum } = row;
  return {
    ...logEntry(row, people),
    orgId,
    partnerId,
    actorType,
    actorId,
    errorMessage,
    seq: Number(seq),
    checksum,
    prevChecksum,
  };
}

/** Changes of a device, its processes and services. The condition is that of the index `audit_logs_of_device`. */
export const changeTimeline: TimelineSource = {
  kind: 'change',
  permission: 'audit:read',
  from: `audit_logs t where t.resource_id = :deviceId and t.chain_id = any((select app_chain_ids())::uuid[])
    and t.resource_type = 'device' and t.action in ('device.approve', 'device.delete', 'device.maintenance', 'device.move',
      'device.process.end', 'device.renamed', 'device.restore', 'device.service.restart', 'device.service.start',
      'device.service.stop', 'device.update', 'device.upgrade')`,
  id: 't.id::text',
  at: 't."timestamp"',
  by: `case when t.actor_type = 'user' then t.actor_id end`,
  byName: 't.actor_email',
  fields: {
    action: 't.action',
    result: 't.result',
    // Of an update the fields that have changed.
    fields: `case when jsonb_typeof(t.details -> 'after') = 'object'
      then (select coalesce(jsonb_agg(key), '[]') from jsonb_object_keys(t.details -> 'after') key) else '[]' end`,
  },
};
