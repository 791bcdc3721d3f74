import type { Statement } from '../../../platform/db/statement.ts';
import { chainOf, type SealedContent } from '../chain/chain.ts';

/** As `audit_actors` and `audit_resources` have them. */
export interface Names {
  actors: { chain_id: string; actor_id: string; actor_email: string | null }[];
  resources: { chain_id: string; resource_type: string; resource_name: string | null }[];
}

/** What names are taken from. */
export type NamedEntry = Pick<
  SealedContent,
  'orgId' | 'partnerId' | 'actorType' | 'actorId' | 'actorEmail' | 'resourceType' | 'resourceName'
>;

/**
 * SQL: the lock that who notes names shares until the commit, and who gathers them by their numbers holds alone: then no
 * lower number is still to come.
 */
export const NAMES_LOCK = `hashtextextended('audit-names', 0)`;

/** Before the statement that notes resources. */
export const LOCK_NAMES_SHARED: Statement = {
  name: 'audit-hold-names',
  text: `select pg_advisory_xact_lock_shared(${NAMES_LOCK})`,
};

/** SQL: notes the names of a parameter, in one order everywhere, so that no two wait for each other. */
export const insertActorsSql = (names: string) => `
  insert into audit_actors (chain_id, actor_id, actor_email)
  select * from jsonb_to_recordset(${names}::jsonb) as n (chain_id uuid, actor_id uuid, actor_email text)
  order by 1, 2, 3 on conflict do nothing`;
export const insertResourcesSql = (names: string) => `
  insert into audit_resources (chain_id, resource_type, resource_name)
  select * from jsonb_to_recordset(${names}::jsonb) as n (chain_id uuid, resource_type text, resource_name text)
  order by 1, 2, 3 on conflict do nothing`;

const MOST = 50_000;
/**
 * Names are removed with the last entry that uses them, which is a month old at the least. What is forgotten sooner than
 * that is noted again before a new entry comes to use it.
 */
const REMEMBERED_MS = 24 * 3_600_000;

/** Remembers who and what was noted already, so that a batch rarely notes anything. */
export class NameIndexCache {
  readonly #noted = new Set<string>();
  readonly #rememberedMs: number;
  #since = performance.now();

  constructor(rememberedMs = REMEMBERED_MS) {
    this.#rememberedMs = rememberedMs;
  }

  /** Of these entries, what may not have been noted yet. */
  newIn(entries: readonly NamedEntry[]): Names {
    if (performance.now() - this.#since >= this.#rememberedMs) {
      this.#noted.clear();
      this.#since = performance.now();
    }
    const actors = new Map<string, Names['actors'][number]>();
    const resources = new Map<string, Names['resources'][number]>();
    for (const entry of entries) {
      const chain_id = chainOf(entry);
      const { actorId: actor_id, actorEmail: actor_email } = entry;
      const actor = actorKey({ chain_id, actor_id, actor_email });
      // Agents have no address and no name that anybody looks for, and there are many of them.
      if (entry.actorType !== 'agent' && !this.#noted.has(actor)) {
        actors.set(actor, { chain_id, actor_id, actor_email });
      }
      const { resourceType: resource_type, resourceName: resource_name } = entry;
      const resource = resourceKey({ chain_id, resource_type, resource_name });
      if (!this.#noted.has(resource)) resources.set(resource, { chain_id, resource_type, resource_name });
    }
    return { actors: [...actors.values()], resources: [...resources.values()] };
  }

  /** They are committed. */
  noted({ actors, resources }: Names): void {
    if (this.#noted.size > MOST) this.#noted.clear();
    for (const actor of actors) this.#noted.add(actorKey(actor));
    for (const resource of resources) this.#noted.add(resourceKey(resource));
  }
}

const actorKey = ({ chain_id, actor_id, actor_email }: Names['actors'][number]) =>
  `a ${chain_id} ${actor_id} ${actor_email ?? '\0'}`;
const resourceKey = ({ chain_id, resource_type, resource_name }: Names['resources'][number]) =>
  `r ${chain_id} ${resource_type}\0${resource_name ?? '\0'}`;
