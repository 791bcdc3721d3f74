import { clock } from '../../../clock.ts';
import type { Statement } from '../../../platform/db/statement.ts';
import { chainOf, type SealedContent } from '../chain/chain.ts';

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

/**
 * SQL: the key of an advisory lock. Transactions that insert resources share it until they commit. `NameIndexCompactor`
 * takes it exclusively, so that no row with a lower number can commit after it has read.
 */
export const NAMES_LOCK = `hashtextextended('audit-names', 0)`;

/** Must run before a statement that inserts resources. */
export const LOCK_NAMES_SHARED: Statement = {
  name: 'audit-hold-names',
  text: `select pg_advisory_xact_lock_shared(${NAMES_LOCK})`,
};

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
