import type { Context } from '../../../platform/context.ts';
import type { Query } from '../../../platform/db/pool.ts';
import type { EntryFilter } from './audit.schema.ts';
import { searchActors, searchResources } from '../name-index/name-search.ts';

/**
 * Where the entries that a caller asks for lie: in streams, each of which an index gives newest first. A page is the
 * newest of what each stream has to offer, so that its price is what it shows, and not what else there is.
 */
export interface Streams {
  /** SQL of one row for each stream, its columns named as those of the entries in it. */
  source: string;
  bindings: readonly (string | null)[][];
  columns: readonly ('chain_id' | 'actor_id' | 'resource_type' | 'resource_name')[];
  count: number;
  /** There are streams of entries whose resource has no name. */
  hasUnnamed: boolean;
  /** What of the filter every entry in them meets. */
  implied: 'user' | 'resource' | undefined;
}

/** So many names are looked for one by one; where a text fits more of them, it is looked for in the entries themselves. */
const MOST_NAMES = 1000;
/** And so many are counted. */
const MOST_NAMES_COUNTED = 10_000;
/** What streams may be asked to offer for a page at once; those of a name rarely have as much. */
const MOST_OFFERED = { ofChains: 20_000, ofNames: 200_000 };
/** An entry of a stream that does not show by its index whether it fits is looked at: not in too many streams. */
const MOST_WALKED = 10;

/** The chains that the caller sees; none is named to a caller who sees all. */
async function chainsOf({ tx, caller }: Context): Promise<string[] | undefined> {
  if (caller.scope === 'system') return undefined;
  if (caller.orgId !== null && caller.scope === 'organization') return [caller.orgId];
  const { rows } = await tx.raw<{ rows: { id: string }[] }>(
    'select id from unnest(app_chain_ids()) as c (id) where id is not null',
  );
  return rows.map(({ id }) => id);
}

export interface ScanPlan {
  /** Every chain that the caller sees; absent: all there are. */
  chains: string[] | undefined;
  /** Absent where the entries are better walked to, newest first. */
  streams: Streams | undefined;
  /** More names fit than are looked for one by one, so that a walk soon has enough. */
  isUnselective: boolean;
}

/** Where to look for the entries that the filter leaves. */
export async function planScan(ctx: Context, filter: EntryFilter): Promise<ScanPlan> {
  const chains = await chainsOf(ctx);
  const named = await namedStreams(ctx, filter, chains, MOST_NAMES);
  if (named === undefined) return { chains, streams: chainStreams(filter, chains), isUnselective: false };
  const isUnselective = named.count > MOST_NAMES;
  return { chains, streams: isUnselective ? chainStreams(filter, chains) : named, isUnselective };
}

/** Where to look for what is counted, and whether more names fit than are counted. */
export async function planCount(
  ctx: Context,
  filter: EntryFilter,
  { chains, streams, isUnselective }: ScanPlan,
): Promise<{ streams: Streams; isCut: boolean }> {
  const found = isUnselective ? await namedStreams(ctx, filter, chains, MOST_NAMES_COUNTED) : streams;
  if (found !== undefined) return { streams: found, isCut: isUnselective && found.count > MOST_NAMES_COUNTED };
  return { streams: streamsOf(chains ?? (await allChains(ctx))), isCut: false };
}

async function allChains({ tx }: Context): Promise<string[]> {
  const rows: { chain_id: string }[] = await tx('audit_chain_heads').select('chain_id');
  return rows.map((row) => row.chain_id);
}

function chainStreams(filter: EntryFilter, chains: string[] | undefined): Streams | undefined {
  if (chains === undefined) return undefined;
  const isWalked = filter.q !== undefined || filter.user !== undefined || filter.resource !== undefined;
  if (isWalked && chains.length > MOST_WALKED) return undefined;
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

/** By the names that a part of one fits, as the sealer noted them; one more than `most` where there are more. */
async function namedStreams(
  ctx: Context,
  { user, resource }: EntryFilter,
  chains: string[] | undefined,
  most: number,
): Promise<Streams | undefined> {
  if (user !== undefined) {
    const rows = await searchActors(ctx, user, chains, most + 1);
    return {
      source: 'unnest(?::uuid[], ?::uuid[]) as s (chain_id, actor_id)',
      bindings: [rows.map((row) => row.chain_id), rows.map((row) => row.actor_id)],
      columns: ['chain_id', 'actor_id'],
      count: rows.length,
      hasUnnamed: false,
      implied: rows.every(({ always }) => always) ? 'user' : undefined,
    };
  }
  if (resource === undefined) return undefined;
  const rows = await searchResources(ctx, resource, chains, most + 1);
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

/** The entries of each stream; `choose` says which and how many of one. */
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
        // Nothing is equal to a name that is not there.
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
 * The ids of the entries of all streams behind `offset` and up to `through`, newest first. Where each would offer as many
 * as are asked for, and most of them in vain, it first offers its share and some more; as far back as these go, all are
 * looked for.
 */
export function newestIn(
  ctx: Context,
  streams: Streams,
  { offset, through, fitting }: { offset: number; through: number; fitting: (entries: Query) => Query },
): Query {
  const offering = (count: number, entries: Query) =>
    newestFirst(fitting(entries)).select('l.id', 'l.timestamp').limit(count);
  const most = streams.columns.length === 1 ? MOST_OFFERED.ofChains : MOST_OFFERED.ofNames;
  const share = Math.ceil((4 * through) / streams.count) + 4;
  const offered = entriesIn(ctx, streams, (entries) => {
    if (streams.count * through <= most || share >= through) return offering(through, entries);
    const first = entriesIn(ctx, streams, (some) => offering(share, some)).select('e.timestamp');
    // Where not as many as are asked for are offered, there is no end to it.
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
