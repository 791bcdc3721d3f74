import type { Db } from '../../../platform/db/pool.ts';
import { runPrepared } from '../../../platform/db/prepared.ts';
import { withSystem, type Tx } from '../../../platform/db/transaction.ts';
import type { BatchChoice } from './seal-batch.ts';
import { LOCK_NAMES_SHARED, type NamedEntry, insertActorsSql, insertResourcesSql, type NameIndexCache } from '../name-index/name-index-cache.ts';

/**
 * Notes the names in the entries behind the next batch while that is sealed, so that their batch has little to note
 * itself. Nothing depends on it: what was noted for an entry that waits longer than expected only names it early.
 */
export async function prefetchNameIndex(db: Db, names: NameIndexCache, { limit, without }: BatchChoice): Promise<void> {
  const inSystem = <T>(work: (tx: Tx) => Promise<T>) =>
    withSystem(db, 'note the names in audit entries that will be sealed soon', work);
  const waiting = await inSystem((tx) => runPrepared<NamedEntry>(tx, AHEAD, [limit, without]));
  const { actors, resources } = names.newIn(waiting);
  // Each in a transaction of its own: whoever notes the same names in one never waits for both.
  if (actors.length > 0) {
    await inSystem((tx) => runPrepared(tx, ACTORS, [JSON.stringify(actors)]));
    names.noted({ actors, resources: [] });
  }
  if (resources.length > 0) {
    await inSystem(async (tx) => {
      await runPrepared(tx, LOCK_NAMES_SHARED, []);
      await runPrepared(tx, RESOURCES, [JSON.stringify(resources)]);
    });
    names.noted({ actors: [], resources });
  }
}

const AHEAD = {
  name: 'audit-names-ahead',
  text: `
    select org_id as "orgId", partner_id as "partnerId", actor_type as "actorType", actor_id as "actorId",
      actor_email as "actorEmail", resource_type as "resourceType", resource_name as "resourceName"
    from audit_outbox where not chain_id = any($2::uuid[]) order by position offset $1::int limit $1::int`,
};

const ACTORS = { name: 'audit-note-actors', text: insertActorsSql('$1') };
const RESOURCES = { name: 'audit-note-resources', text: insertResourcesSql('$1') };
