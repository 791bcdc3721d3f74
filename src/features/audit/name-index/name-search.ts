import type { Context } from '../../../platform/context.ts';
import { containing } from '../../../platform/db/like-pattern.ts';
import { compactedThrough } from './name-index-compactor.ts';

/** Who and what a part of a name may mean, by what the sealer noted: fewer rows than there are entries. */

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

export interface ActorMatch {
  chain_id: string;
  actor_id: string;
  /** Whatever address an entry of theirs may have. */
  always: boolean;
}

/** @param chains  absent: all there are */
export async function searchActors(
  { tx }: Context,
  user: string,
  chains: string[] | undefined,
  limit: number,
): Promise<ActorMatch[]> {
  const [fits, bindings] = byUser('n', user);
  const { rows } = await tx.raw<{ rows: ActorMatch[] }>(
    `select chain_id, actor_id, bool_and(fits) as always from (
      select n.chain_id, n.actor_id, coalesce(${fits}, false) as fits from audit_actors n where ${inChains('n', chains)}
    ) noted group by chain_id, actor_id having bool_or(fits) limit :limit`,
    { ...bindings, chains: chains ?? null, limit },
  );
  return rows;
}

export interface ResourceMatch {
  chain_id: string;
  resource_type: string;
  resource_name: string | null;
}

/** Sheet by sheet, and one by one what was noted since the sheets were written. */
export async function searchResources(
  { tx }: Context,
  resource: string,
  chains: string[] | undefined,
  limit: number,
): Promise<ResourceMatch[]> {
  const [fits, bindings] = byResource('n', resource);
  const { rows } = await tx.raw<{ rows: ResourceMatch[] }>(
    `select n.chain_id, n.resource_type, n.resource_name from audit_name_sheets g
    cross join lateral (
      select g.chain_id, g.resource_type, resource_name from unnest(g.names) as resource_name
    ) n
    where ${inChains('g', chains)} and strpos(g.small_letters, lower(:part)) > 0 and ${fits}
    union all
    select n.chain_id, n.resource_type, n.resource_name from audit_chain_heads h
    cross join lateral (
      -- Few, which Postgres does not know: told to go by their numbers, it does not look through all there are.
      select * from audit_resources r where r.chain_id = h.chain_id and r.no > ${compactedThrough('h')} order by r.no
      offset 0
    ) n
    where ${inChains('h', chains)} and ${fits}
    limit :limit`,
    { ...bindings, part: resource, chains: chains ?? null, limit },
  );
  return rows;
}

const inChains = (table: string, chains: string[] | undefined) =>
  chains === undefined ? 'true' : `${table}.chain_id = any(:chains::uuid[])`;
