import type { Db } from '../../../platform/db/pool.ts';
import { runPrepared } from '../../../platform/db/prepared.ts';
import { withSystem, type Tx } from '../../../platform/db/transaction.ts';
import type { BatchChoice } from './seal-batch.ts';
import {
  LOCK_NAMES_SHARED,
  type NamedEntry,
  insertActorsSql,
  insertResourcesSql,
  type NameIndexCache,
} from '../name-index/name-index-cache.ts';

/**
 * While a batch is sealed, indexes the names in the entries of the next batch, so that sealing that batch inserts few
 * names itself. Nothing depends on it: a name may be indexed before its entry is sealed without harm.
 */
export async function prefetchNameIndex(
  db: Db,
  names: NameIndexCache,
  { limit, without }: BatchChoice,
): Promise<void> {
  const inSystem = <T>(work: (tx: Tx) => Promise<T>) =>
    withSystem(db, 'index the names in audit entries of the next batch', work);
  const waiting = await inSystem((tx) => runPrepared<NamedEntry>(tx, NEXT_BATCH, [limit, without]));
  const { actors, resources } = names.unindexed(waiting);
  // Separate transactions: another that inserts the same names then waits for at most one of the two.
  if (actors.length > 0) {
    await inSystem((tx) => runPrepared(tx, ACTORS, [JSON.stringify(actors)]));
    names.markIndexed({ actors, resources: [] });
  }
  if (resources.length > 0) {
    await inSystem(async (tx) => {
      await runPrepared(tx, LOCK_NAMES_SHARED, []);
      await runPrepared(tx, RESOURCES, [JSON.stringify(resources)]);
    });
    names.markIndexed({ actors: [], resources });
  }
}

const NEXT_BATCH = {
  name: 'audit-names-ahead',
  text: `
    select org_id as "orgId", partner_id as "partnerId", actor_type as "actorType", actor_id as "actorId",
      actor_email as "actorEmail", resource_type as "resourceType", resource_name as "resourceName"
    from audit_outbox where not chain_id = any($2::uuid[]) order by position offset $1::int limit $1::int`,
};

const ACTORS = { name: 'audit-index-actors', text: insertActorsSql('$1') };
const RESOURCES = { name: 'audit-index-resources', text: insertResourcesSql('$1') };
