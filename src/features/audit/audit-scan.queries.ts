import type { Context } from '../../platform/context.ts';
import type { Query } from '../../platform/db/pool.ts';
import { type EntryFilter, categorySql, type Category } from './audit.schema.ts';
import { assertOrganizationAccess } from '../organizations/index.ts';
import { containing } from '../../platform/db/statement.ts';
import { compactedThrough } from './name-index.queries.ts';

/**
 * A query plan in terms of streams: sets of entries that an index returns newest first, such as one chain, or one actor
 * within a chain. A page merges the newest entries of each stream, so its cost depends on the size of the page and not
 * on the number of stored entries.
 */
export interface Streams {
  /** SQL with one row per stream. Its columns have the names of the entry columns they must equal. */
  source: string;
  bindings: readonly (string | null)[][];
  columns: readonly ('chain_id' | 'actor_id' | 'action' | 'resource_type' | 'resource_name')[];
  count: number;
  /** Some streams are of entries whose resource has no name. */
  hasUnnamed: boolean;
  /** The part of the filter that every entry in the streams satisfies. */
  implied: 'user' | 'resource' | 'category' | undefined;
}

/** Up to this many matching names become streams. With more, the plan scans the entries themselves. */
const MAX_NAMES = 1000;

/** The same limit for counting. */
const MAX_NAMES_COUNTED = 10_000;

/** Limits how many entries all streams together may return for one page; streams of a name rarely hold that many. */
const MAX_OFFERED = { ofChains: 20_000, ofNames: 200_000 };

/** With a filter that the index of a chain cannot answer, up to this many chains are scanned as streams. */
const MAX_SCANNED_CHAINS = 10;

/** The chains that the caller can see and asks about; undefined for a caller who can see all, and asks about all. */
async function chainsOf(ctx: Context, { orgId }: EntryFilter): Promise<string[] | undefined> {
  const { tx, caller } = ctx;
  if (orgId !== undefined) {
    await assertOrganizationAccess(ctx, orgId);
    return [orgId];
  }
  if (caller.scope === 'system') return undefined;
  if (caller.orgId !== null && caller.scope === 'organization') return [caller.orgId];
  const { rows } = await tx.raw<{ rows: { id: string }[] }>(
    'select id from unnest(app_chain_ids()) as c (id) where id is not null',
  );
  return rows.map(({ id }) => id);
}

export interface ScanPlan {
  /** Every chain that the caller can see and asks about; undefined: all chains. */
  chains: string[] | undefined;
  /** Undefined if scanning the entries newest first is better. */
  streams: Streams | undefined;
  /** More names match than can become streams, so a scan newest first finds enough entries quickly. */
  isUnselective: boolean;
}

/** Plans how to find the newest entries that match the filter. */
export async function planScan(ctx: Context, filter: EntryFilter): Promise<ScanPlan> {
  const chains = await chainsOf(ctx, filter);
  const named = await namedStreams(ctx, filter, chains, MAX_NAMES);
  if (named === undefined) return { chains, streams: chainStreams(filter, chains), isUnselective: false };
  const isUnselective = named.count > MAX_NAMES;
  return { chains, streams: isUnselective ? chainStreams(filter, chains) : named, isUnselective };
}

/** Plans how to count the matching entries. `isPartial`: more names match than are counted. */
export async function planCount(
  ctx: Context,
  filter: EntryFilter,
  { chains, streams, isUnselective }: ScanPlan,
): Promise<{ streams: Streams; isPartial: boolean }> {
  const found = isUnselective ? await namedStreams(ctx, filter, chains, MAX_NAMES_COUNTED) : streams;
  if (found === undefined) {
    return { streams: streamsOf(chains ?? (await allChains(ctx))), isPartial: false };
  }
  return { streams: found, isPartial: isUnselective && found.count > MAX_NAMES_COUNTED };
}

async function allChains({ tx }: Context): Promise<string[]> {
  const rows: { chain_id: string }[] = await tx('audit_chain_heads').select('chain_id');
  return rows.map((row) => row.chain_id);
}

function chainStreams(filter: EntryFilter, chains: string[] | undefined): Streams | undefined {
  if (chains === undefined) return undefined;
  const { q, user, resource, category } = filter;
  const isScan = [q, user, resource, category].some((condition) => condition !== undefined);
  if (isScan && chains.length > MAX_SCANNED_CHAINS) return undefined;
  return streamsOf(chains);
}

const streamsOf = (chains: string[]): Streams => ({
  source: 'unnest(?::uuid[]) as s (chain_id)',
  bindings: [chains],
  columns: ['chain_id'],
  count: chains.length,
  hasUnnamed: false,
  implied: undefined,
});

/**
 * One stream per name that contains the text, or per action of the category. Returns `max + 1` streams if more than `max`
 * match.
 */
async function namedStreams(
  ctx: Context,
  { user, resource, category, action }: EntryFilter,
  chains: string[] | undefined,
  max: number,
): Promise<Streams | undefined> {
  if (user !== undefined) {
    const rows = await searchActors(ctx, user, chains, max + 1);
    return {
      source: 'unnest(?::uuid[], ?::uuid[]) as s (chain_id, actor_id)',
      bindings: [rows.map((row) => row.chain_id), rows.map((row) => row.actor_id)],
      columns: ['chain_id', 'actor_id'],
      count: rows.length,
      hasUnnamed: false,
      implied: rows.every(({ matchesAll }) => matchesAll) ? 'user' : undefined,
    };
  }
  // An action has its category, so entries of an action are found by the action.
  if (resource === undefined && category !== undefined && action === undefined) {
    const rows = await actionsIn(ctx, category, chains ?? (await allChains(ctx)), max + 1);
    return {
      source: 'unnest(?::uuid[], ?::text[]) as s (chain_id, action)',
      bindings: [rows.map((row) => row.chain_id), rows.map((row) => row.action)],
      columns: ['chain_id', 'action'],
      count: rows.length,
      hasUnnamed: false,
      implied: 'category',
    };
  }
  if (resource === undefined) return undefined;
  const rows = await searchResources(ctx, resource, chains, max + 1);
  return {
    source: 'unnest(?::uuid[], ?::text[], ?::text[]) as s (chain_id, resource_type, resource_name)',
    bindings: [
      rows.map((row) => row.chain_id),
      rows.map((row) => row.resource_type),
      rows.map((row) => row.resource_name),
    ],
    columns: ['chain_id', 'resource_type', 'resource_name'],
    count: rows.length,
    hasUnnamed: rows.some((row) => row.resource_name === null),
    implied: 'resource',
  };
}

/** The actions of a category that occur in each chain. Steps from action to action in the index, past their entries. */
async function actionsIn(
  { tx }: Context,
  category: Category,
  chains: string[],
  limit: number,
): Promise<{ chain_id: string; action: string }[]> {
  const next = (than: string) =>
    `(select l.action from audit_logs l where l.chain_id = c.id ${than} order by l.action limit 1)`;
  const { rows } = await tx.raw<{ rows: { chain_id: string; action: string }[] }>(
    `select c.id as chain_id, found.action from unnest(:chains::uuid[]) as c (id) cross join lateral (
      with recursive actions (action) as (
        select ${next('')} union all
        select ${next('and l.action > actions.action')} from actions where actions.action is not null
      ) select action from actions where action is not null
    ) found where ${categorySql('found.action')} = :category limit :limit`,
    { chains, category, limit },
  );
  return rows;
}

/** The entries of all streams; `choose` filters and limits those of one stream. */
export function entriesIn(ctx: Context, streams: Streams, choose: (entries: Query) => Query): Query {
  const { tx } = ctx;
  const of = (names: readonly string[]): Query => {
    const entries: Query = tx('audit_logs as l');
    for (const name of names) void entries.whereRaw(`l.${name} = s.${name}`);
    return choose(entries);
  };
  const { columns, hasUnnamed } = streams;
  const perStream = hasUnnamed
    ? tx.raw('(? union all ?)', [
        of(columns),
        // A null name is not equal to anything, so it needs its own condition.
        of(columns.filter((name) => name !== 'resource_name'))
          .whereNull('l.resource_name')
          .whereNull('s.resource_name'),
      ])
    : tx.raw('?', [of(columns)]);
  return tx
    .from(tx.raw(streams.source, streams.bindings as string[][]))
    .joinRaw('cross join lateral ? as e', [perStream]);
}

/**
 * The ids of the entries from `offset` to `through` over all streams, newest first. Reading `through` entries from every
 * stream would be wasteful when there are many streams. Then each stream first contributes its share and a margin; the
 * oldest time needed is at least that of entry `through` among these, so the full read stops there.
 */
export function newestIn(
  ctx: Context,
  streams: Streams,
  { offset, through, matching }: { offset: number; through: number; matching: (entries: Query) => Query },
): Query {
  const offering = (count: number, entries: Query) =>
    newestFirst(matching(entries)).select('l.id', 'l.timestamp').limit(count);
  const max = streams.columns.length === 1 ? MAX_OFFERED.ofChains : MAX_OFFERED.ofNames;
  const share = Math.ceil((4 * through) / streams.count) + 4;
  const offered = entriesIn(ctx, streams, (entries) => {
    if (streams.count * through <= max || share >= through) return offering(through, entries);
    const first = entriesIn(ctx, streams, (some) => offering(share, some)).select('e.timestamp');
    // If the shares hold fewer entries than requested, there is no lower bound.
    return offering(through, entries).whereRaw(
      `l.timestamp >= (select coalesce(
        (select first.timestamp from (?) as first order by 1 desc offset ? limit 1), '-infinity'))`,
      [first, through - 1],
    );
  });
  return offered
    .select('e.id')
    .orderByRaw('e.timestamp desc, e.id desc')
    .limit(through - offset)
    .offset(offset);
}

export const newestFirst = (entries: Query): Query => entries.orderByRaw('l.timestamp desc, l.id desc');

/** Finds actors and resources by part of their name in the name index, which is much smaller than the entries. */

type Condition = [sql: string, bindings: Record<string, string>];

/** Matches part of the e-mail address, or of the person's current name. `l` is an entry, `n` a row of the name index. */
export const byUser = (table: 'l' | 'n', user: string): Condition => [
  `(${table}.actor_email ilike :user or ${table}.actor_id in (select id from users where name ilike :user))`,
  { user: containing(user) },
];

export const byResource = (table: 'l' | 'n', resource: string): Condition => [
  `(lower(${table}.resource_type) = lower(:type) or ${table}.resource_name ilike :name)`,
  { type: resource, name: containing(resource) },
];

interface ActorMatch {
  chain_id: string;
  actor_id: string;
  /** Every entry of the actor matches, whichever of the actor's addresses it has. */
  matchesAll: boolean;
}

/** @param chains  absent: all chains */
async function searchActors(
  { tx }: Context,
  user: string,
  chains: string[] | undefined,
  limit: number,
): Promise<ActorMatch[]> {
  const [matches, bindings] = byUser('n', user);
  const { rows } = await tx.raw<{ rows: ActorMatch[] }>(
    `select chain_id, actor_id, bool_and(matches) as "matchesAll" from (
      select n.chain_id, n.actor_id, coalesce(${matches}, false) as matches from audit_actors n where ${inChains('n', chains)}
    ) indexed group by chain_id, actor_id having bool_or(matches) limit :limit`,
    { ...bindings, chains: chains ?? null, limit },
  );
  return rows;
}

interface ResourceMatch {
  chain_id: string;
  resource_type: string;
  resource_name: string | null;
}

/** Searches the sheets, then the names that are not compacted yet. `small_letters` is the search text of a sheet. */
async function searchResources(
  { tx }: Context,
  resource: string,
  chains: string[] | undefined,
  limit: number,
): Promise<ResourceMatch[]> {
  const [matches, bindings] = byResource('n', resource);
  const { rows } = await tx.raw<{ rows: ResourceMatch[] }>(
    `select n.chain_id, n.resource_type, n.resource_name from audit_name_sheets g
    cross join lateral (
      select g.chain_id, g.resource_type, resource_name from unnest(g.names) as resource_name
    ) n
    where ${inChains('g', chains)} and strpos(g.small_letters, lower(:part)) > 0 and ${matches}
    union all
    select n.chain_id, n.resource_type, n.resource_name from audit_chain_heads h
    cross join lateral (
      -- Few rows, which Postgres cannot estimate; ordering by number makes it use the index instead of a full scan.
      select * from audit_resources r where r.chain_id = h.chain_id and r.no > ${compactedThrough('h')} order by r.no
      offset 0
    ) n
    where ${inChains('h', chains)} and ${matches}
    limit :limit`,
    { ...bindings, part: resource, chains: chains ?? null, limit },
  );
  return rows;
}

const inChains = (table: string, chains: string[] | undefined) =>
  chains === undefined ? 'true' : `${table}.chain_id = any(:chains::uuid[])`;
