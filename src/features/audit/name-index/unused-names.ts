import type { Db } from '../../../platform/db/pool.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import { NAMES_LOCK } from './name-index-cache.ts';

/**
 * Removes names that no entry uses from the name index: e-mail addresses and resource names must not outlive the pruned
 * entries that held them (docs/decisions/audit-chain.md).
 */

const BATCH_SIZE = 5000;
/** Chains pruned within this time are examined, so that an interrupted run is completed by a later one. */
const RECENTLY = `interval '7 days'`;

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
  return withSystem(db, 'find recently pruned audit chains', async (tx) => {
    const { rows } = await tx.raw<{ rows: { chain_id: string }[] }>(
      `select distinct chain_id from audit_checkpoints where kind = 'cut' and at > now() - ${RECENTLY} order by chain_id`,
    );
    return rows.map((row) => row.chain_id);
  });
}

// A scalar subquery instead of `not exists`, which Postgres turns into a join that reads all entries of the chain.
const unused = (table: string, conditions: string) =>
  `(select 1 from ${table} e where e.chain_id = n.chain_id and ${conditions} limit 1) is null`;

/**
 * A chain has few actors. The newest entry of an actor usually has the current address and is found through the index;
 * the older entries are read only for an address that was changed.
 */
const REMOVE_ACTORS = `
  delete from audit_actors n where n.chain_id = ?
    and (select e.actor_email from audit_logs e where e.chain_id = n.chain_id and e.actor_id = n.actor_id
      order by e."timestamp" desc, e.id desc limit 1) is distinct from n.actor_email
    and ${unused('audit_logs', 'e.actor_id = n.actor_id and e.actor_email is not distinct from n.actor_email')}
    and ${unused('audit_outbox', 'e.actor_id = n.actor_id and e.actor_email is not distinct from n.actor_email')}`;

async function removeActors(db: Db, chainId: string): Promise<number> {
  return withSystem(db, 'remove actors that no audit entry names', async (tx) => {
    const { rowCount } = await tx.raw<{ rowCount: number }>(REMOVE_ACTORS, [chainId]);
    return rowCount;
  });
}

const OF_RESOURCE = 'e.resource_type = n.resource_type and e.resource_name = n.resource_name';
const IS_UNUSED = `${unused('audit_logs', OF_RESOURCE)} and ${unused('audit_outbox', OF_RESOURCE)}`;

/** Rows without a name hold no personal data and are kept. */
const FIND_RESOURCES = `
  select n.no, n.resource_name is not null and ${IS_UNUSED} as is_unused
  from audit_resources n where n.chain_id = ? and n.no > ? order by n.no limit ${BATCH_SIZE}`;

async function removeResources(db: Db, chainId: string, signal: AbortSignal): Promise<number> {
  let removed = 0;
  let through = '0';
  while (!signal.aborted) {
    const seen = await withSystem(db, 'find names that no audit entry uses', async (tx) => {
      const { rows } = await tx.raw<{ rows: { no: string; is_unused: boolean }[] }>(FIND_RESOURCES, [
        chainId,
        through,
      ]);
      return rows;
    });
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
  return withSystem(db, 'remove names that no audit entry uses', async (tx) => {
    await tx.raw(`select pg_advisory_xact_lock(${NAMES_LOCK})`);
    const { rowCount } = await tx.raw<{ rowCount: number }>(
      `delete from audit_resources n where n.chain_id = ? and n.no = any(?::bigint[]) and ${IS_UNUSED}`,
      [chainId, [...candidates]],
    );
    if (rowCount > 0) await tx.raw('delete from audit_name_sheets where chain_id = ?', [chainId]);
    return rowCount;
  });
}
