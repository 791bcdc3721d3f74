import { isDatabaseAway } from '../../platform/db/database-errors.ts';
import type { Db } from '../../platform/db/pool.ts';

import { withSystem, runPrepared } from '../../platform/db/transaction.ts';
import type { Logger } from '../../platform/logger.ts';
import { clock } from '../../clock.ts';
import { chainOf, type SealedContent } from './chain.ts';
import {
  COMPACT,
  lockNames,
  recentlyPrunedChains,
  deleteUnusedActors,
  resourcesAfter,
  deleteUnusedResources,
  chainsToCompact,
} from './name-index.queries.ts';

/** Returns how many names it removed. */
export async function removeUnusedNames(db: Db, signal: AbortSignal): Promise<number> {
  let removed = 0;
  for (const chainId of await prunedChains(db)) {
    if (signal.aborted) break;
    removed += await removeActors(db, chainId);
    removed += await removeResources(db, chainId, signal);
  }
  return removed;
}

async function prunedChains(db: Db): Promise<string[]> {
  return withSystem(db, 'find recently pruned audit chains', recentlyPrunedChains);
}

async function removeActors(db: Db, chainId: string): Promise<number> {
  return withSystem(db, 'remove actors that no audit entry names', (tx) => deleteUnusedActors(tx, chainId));
}

async function removeResources(db: Db, chainId: string, signal: AbortSignal): Promise<number> {
  let removed = 0;
  let through = '0';
  while (!signal.aborted) {
    const seen = await withSystem(db, 'find names that no audit entry uses', (tx) =>
      resourcesAfter(tx, chainId, through),
    );
    const last = seen.at(-1);
    if (last === undefined) break;
    through = last.no;
    const candidates = seen.flatMap(({ no, is_unused: isUnused }) => (isUnused ? [no] : []));
    if (candidates.length > 0) removed += await removeCandidates(db, chainId, candidates);
  }
  return removed;
}

/**
 * No name can be inserted while the lock is held, so none of the candidates can come into use. The sheets of the chain,
 * which repeat the names, are deleted in the same transaction; the next compaction rewrites them.
 */
async function removeCandidates(db: Db, chainId: string, candidates: readonly string[]): Promise<number> {
  return withSystem(db, 'remove names that no audit entry uses', (tx) =>
    deleteUnusedResources(tx, chainId, candidates),
  );
}

/** Rows of `audit_actors` and `audit_resources`. */
export interface Names {
  actors: { chain_id: string; actor_id: string; actor_email: string | null }[];
  resources: { chain_id: string; resource_type: string; resource_name: string | null }[];
}

/** The fields of an entry that the name index covers. */
export type NamedEntry = Pick<
  SealedContent,
  'orgId' | 'partnerId' | 'actorType' | 'actorId' | 'actorEmail' | 'resourceType' | 'resourceName'
>;

/** SQL: inserts the names from a JSON parameter, always in the same order so that transactions cannot deadlock. */
export const insertActorsSql = (names: string) => `
  insert into audit_actors (chain_id, actor_id, actor_email)
  select * from jsonb_to_recordset(${names}::jsonb) as n (chain_id uuid, actor_id uuid, actor_email text)
  order by 1, 2, 3 on conflict do nothing`;
export const insertResourcesSql = (names: string) => `
  insert into audit_resources (chain_id, resource_type, resource_name)
  select * from jsonb_to_recordset(${names}::jsonb) as n (chain_id uuid, resource_type text, resource_name text)
  order by 1, 2, 3 on conflict do nothing`;

const MAX_REMEMBERED = 50_000;
/**
 * Names are removed together with the last entry that uses them, which is at least a month old. Since the cache forgets
 * a name much sooner, a new entry that uses it causes it to be inserted again.
 */
const REMEMBERED_MS = 24 * 3_600_000;

/** Remembers which names are already in the index, so that a batch rarely inserts any. */
export class NameIndexCache {
  readonly #indexed = new Set<string>();
  readonly #rememberedMs: number;
  #since = clock.monotonic();

  constructor(rememberedMs = REMEMBERED_MS) {
    this.#rememberedMs = rememberedMs;
  }

  /** The names in these entries that may not be in the index yet. */
  unindexed(entries: readonly NamedEntry[]): Names {
    if (clock.monotonic() - this.#since >= this.#rememberedMs) {
      this.#indexed.clear();
      this.#since = clock.monotonic();
    }
    const actors = new Map<string, Names['actors'][number]>();
    const resources = new Map<string, Names['resources'][number]>();
    for (const entry of entries) {
      const chain_id = chainOf(entry);
      const { actorId: actor_id, actorEmail: actor_email } = entry;
      const actor = actorKey({ chain_id, actor_id, actor_email });
      // Agents are left out: they are numerous, and have neither an address nor a name that people search for.
      if (entry.actorType !== 'agent' && !this.#indexed.has(actor)) {
        actors.set(actor, { chain_id, actor_id, actor_email });
      }
      const { resourceType: resource_type, resourceName: resource_name } = entry;
      const resource = resourceKey({ chain_id, resource_type, resource_name });
      if (!this.#indexed.has(resource)) resources.set(resource, { chain_id, resource_type, resource_name });
    }
    return { actors: [...actors.values()], resources: [...resources.values()] };
  }

  /** Call it after the transaction that inserted these names has committed. */
  markIndexed({ actors, resources }: Names): void {
    if (this.#indexed.size > MAX_REMEMBERED) this.#indexed.clear();
    for (const actor of actors) this.#indexed.add(actorKey(actor));
    for (const resource of resources) this.#indexed.add(resourceKey(resource));
  }
}

const actorKey = ({ chain_id, actor_id, actor_email }: Names['actors'][number]) =>
  `a ${chain_id} ${actor_id} ${actor_email ?? '\0'}`;
const resourceKey = ({ chain_id, resource_type, resource_name }: Names['resources'][number]) =>
  `r ${chain_id} ${resource_type}\0${resource_name ?? '\0'}`;

/** New names of a chain that one transaction compacts. */
const BATCH_SIZE = 20_000;

/**
 * Compacts the resource names that were indexed since the last run into sheets: rows of `audit_name_sheets` with many
 * names each, which a search reads faster than one row per name. Its column `small_letters` holds the search text, the
 * names in lower case. Sealing does not depend on it.
 */
export class NameIndexCompactor {
  readonly #db: Db;
  readonly #log: Logger;

  constructor({ db, log }: { db: Db; log: Logger }) {
    this.#db = db;
    this.#log = log;
  }

  /** Compacts all chains once. Returns how many names were new. */
  async compact(signal = new AbortController().signal): Promise<number> {
    let compacted = 0;
    for (const chainId of await this.#due()) {
      try {
        let count = BATCH_SIZE;
        while (count === BATCH_SIZE && !signal.aborted) {
          count = await this.#compactBatch(chainId);
          compacted += count;
        }
      } catch (error) {
        // Continue with the other chains; this one is retried tomorrow.
        if (isDatabaseAway(error)) throw error;
        this.#log.warn({ err: error, chainId }, 'audit.names_of_chain_not_compacted');
      }
    }
    return compacted;
  }

  async #due(): Promise<string[]> {
    return withSystem(this.#db, 'find audit chains with names that are not compacted yet', chainsToCompact);
  }

  async #compactBatch(chainId: string): Promise<number> {
    return withSystem(this.#db, 'compact the names of an audit chain', async (tx) => {
      // A separate statement, so that the next one sees everything the previous lock holders committed.
      await lockNames(tx);
      const [done] = await runPrepared<{ compacted: number }>(tx, COMPACT, [chainId, BATCH_SIZE]);
      return done?.compacted ?? 0;
    });
  }
}
