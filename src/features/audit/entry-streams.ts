import type { Context } from '../../platform/context.ts';
import { containing } from '../../platform/db/like-pattern.ts';
import type { Query } from '../../platform/db/pool.ts';
import type { EntryFilter } from './audit.schema.ts';

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
}

/** So many names are looked for one by one; where a text fits more of them, it is looked for in the entries themselves. */
const MOST_NAMES = 300;
/** An entry of a stream that does not show by its index whether it fits is looked at: not in too many streams. */
const MOST_WALKED = 10;
/** What streams may offer for a page together. A page far down is cheaper to walk to. */
const MOST_OFFERED = 50_000;

/** The chains that the caller sees; none is named to a caller who sees all. */
async function chainsOf({ tx, caller }: Context): Promise<string[] | undefined> {
  if (caller.scope === 'system') return undefined;
  if (caller.orgId !== null && caller.scope === 'organization') return [caller.orgId];
  const { rows } = await tx.raw<{ rows: { id: string }[] }>(
    'select id from unnest(app_chain_ids()) as c (id) where id is not null',
  );
  return rows.map(({ id }) => id);
}

export interface Places {
  /** Every chain that the caller sees; absent: all there are. */
  chains: string[] | undefined;
  /** Absent where the entries are better walked to, newest first. */
  streams: Streams | undefined;
  /** More names fit than are looked for one by one, so that a walk soon has enough. */
  isDense: boolean;
}

/** Where to look for the entries up to number `through` of those that the filter leaves. */
export async function placesOf(ctx: Context, filter: EntryFilter, through: number): Promise<Places> {
  const chains = await chainsOf(ctx);
  const named = await namedStreams(ctx, filter, chains);
  const isDense = named === 'many';
  const streams = named === undefined || named === 'many' ? chainStreams(filter, chains) : named;
  const isDear = streams !== undefined && streams.count * through > MOST_OFFERED;
  return { chains, streams: isDear ? undefined : streams, isDense };
}

function chainStreams(filter: EntryFilter, chains: string[] | undefined): Streams | undefined {
  if (chains === undefined) return undefined;
  const isWalked = filter.q !== undefined || filter.user !== undefined || filter.resource !== undefined;
  if (isWalked && chains.length > MOST_WALKED) return undefined;
  return {
    source: 'unnest(?::uuid[]) as s (chain_id)',
    bindings: [chains],
    columns: ['chain_id'],
    count: chains.length,
  };
}

/** By the names that a part of one fits, as the sealer noted them. */
async function namedStreams(
  ctx: Context,
  { user, resource }: EntryFilter,
  chains: string[] | undefined,
): Promise<Streams | 'many' | undefined> {
  const inChains = (query: Query): Query =>
    chains === undefined ? query : query.whereRaw('n.chain_id = any(?::uuid[])', [chains]);
  if (user !== undefined) {
    const rows: { chain_id: string; actor_id: string }[] = await inChains(ctx.tx('audit_actors as n'))
      .whereRaw(...byUser('n', user))
      .distinct('n.chain_id', 'n.actor_id')
      .limit(MOST_NAMES + 1);
    if (rows.length > MOST_NAMES) return 'many';
    return {
      source: 'unnest(?::uuid[], ?::uuid[]) as s (chain_id, actor_id)',
      bindings: [rows.map((row) => row.chain_id), rows.map((row) => row.actor_id)],
      columns: ['chain_id', 'actor_id'],
      count: rows.length,
    };
  }
  if (resource === undefined) return undefined;
  const rows: { chain_id: string; resource_type: string; resource_name: string | null }[] = await inChains(
    ctx.tx('audit_resources as n'),
  )
    .whereRaw(...byResource('n', resource))
    .select('n.chain_id', 'n.resource_type', 'n.resource_name')
    .limit(MOST_NAMES + 1);
  if (rows.length > MOST_NAMES) return 'many';
  return {
    source: 'unnest(?::uuid[], ?::text[], ?::text[]) as s (chain_id, resource_type, resource_name)',
    bindings: [
      rows.map((row) => row.chain_id),
      rows.map((row) => row.resource_type),
      rows.map((row) => row.resource_name),
    ],
    columns: ['chain_id', 'resource_type', 'resource_name'],
    count: rows.length,
  };
}

type Condition = [sql: string, bindings: Record<string, string>];

/** By part of the address or of the name that the person has now; of entries, and of what was noted of them. */
export const byUser = (table: 'l' | 'n', user: string): Condition => [
  `(${table}.actor_email ilike :user or ${table}.actor_id in (select id from users where name ilike :user))`,
  { user: containing(user) },
];

export const byResource = (table: 'l' | 'n', resource: string): Condition => [
  `(lower(${table}.resource_type) = lower(:type) or ${table}.resource_name ilike :name)`,
  { type: resource, name: containing(resource) },
];

/** The entries of each stream; `choose` says which and how many of one. */
export function entriesIn(ctx: Context, streams: Streams, choose: (entries: Query) => Query): Query {
  const { tx } = ctx;
  const of = (names: readonly string[]): Query => {
    const entries: Query = tx('audit_logs as l');
    for (const name of names) void entries.whereRaw(`l.${name} = s.${name}`);
    return choose(entries);
  };
  const { columns } = streams;
  const perStream = columns.includes('resource_name')
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
