import type { Context } from '../../../platform/context.ts';
import { containing } from '../../../platform/db/like-pattern.ts';
import { compactedThrough } from './name-index-compactor.ts';

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

export interface ActorMatch {
  chain_id: string;
  actor_id: string;
  /** Every entry of the actor matches, whichever of the actor's addresses it has. */
  matchesAll: boolean;
}

/** @param chains  absent: all chains */
export async function searchActors(
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

export interface ResourceMatch {
  chain_id: string;
  resource_type: string;
  resource_name: string | null;
}

/** Searches the sheets, then the names that are not compacted yet. `small_letters` is the search text of a sheet. */
export async function searchResources(
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
