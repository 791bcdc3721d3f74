import type { Db } from '../../../platform/db/pool.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import { NAMES_LOCK } from './name-index-cache.ts';

/**
 * Removes from the tables of names what no entry uses any more: addresses of people and names of things must not outlive
 * the entries that were pruned (docs/decisions/audit-chain.md).
 */

const AT_ONCE = 5000;
/** Chains that were pruned lately: also those at which a round was interrupted. */
const LATELY = `interval '7 days'`;

/** Answers how many names are gone. */
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
  return withSystem(db, 'find the audit trails that were pruned lately', async (tx) => {
    const { rows } = await tx.raw<{ rows: { chain_id: string }[] }>(
      `select distinct chain_id from audit_checkpoints where kind = 'cut' and at > now() - ${LATELY} order by chain_id`,
    );
    return rows.map((row) => row.chain_id);
  });
}

// A scalar sub-select and not `not exists`, which Postgres would turn into a join that reads all entries of the chain.
const unused = (table: string, conditions: string) =>
  `(select 1 from ${table} e where e.chain_id = n.chain_id and ${conditions} limit 1) is null`;

/**
 * Few to a chain. Whoever has entries under this address has it in the newest one, as a rule, which the index gives at
 * once; only of an address that was given up are the others read.
 */
const REMOVE_ACTORS = `
  delete from audit_actors n where n.chain_id = ?
    and (select e.actor_email from audit_logs e where e.chain_id = n.chain_id and e.actor_id = n.actor_id
      order by e."timestamp" desc, e.id desc limit 1) is distinct from n.actor_email
    and ${unused('audit_logs', 'e.actor_id = n.actor_id and e.actor_email is not distinct from n.actor_email')}
    and ${unused('audit_outbox', 'e.actor_id = n.actor_id and e.actor_email is not distinct from n.actor_email')}`;

async function removeActors(db: Db, chainId: string): Promise<number> {
  return withSystem(db, 'remove the people whom no audit entry names any more', async (tx) => {
    const { rowCount } = await tx.raw<{ rowCount: number }>(REMOVE_ACTORS, [chainId]);
    return rowCount;
  });
}

const OF_RESOURCE = 'e.resource_type = n.resource_type and e.resource_name = n.resource_name';
const IS_UNUSED = `${unused('audit_logs', OF_RESOURCE)} and ${unused('audit_outbox', OF_RESOURCE)}`;

/** A type without a name says nothing about anybody, and stays. */
const FIND_RESOURCES = `
  select n.no, n.resource_name is not null and ${IS_UNUSED} as is_unused
  from audit_resources n where n.chain_id = ? and n.no > ? order by n.no limit ${AT_ONCE}`;

async function removeResources(db: Db, chainId: string, signal: AbortSignal): Promise<number> {
  let removed = 0;
  let through = '0';
  while (!signal.aborted) {
    const seen = await withSystem(db, 'find names that no audit entry uses any more', async (tx) => {
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

/** Under the lock nobody notes a name, so none of these can come into use. The sheets of the chain, which repeat the
 * names, go in the same transaction; they are written anew by whoever gathers next. */
async function removeCandidates(db: Db, chainId: string, candidates: readonly string[]): Promise<number> {
  return withSystem(db, 'remove names that no audit entry uses any more', async (tx) => {
    await tx.raw(`select pg_advisory_xact_lock(${NAMES_LOCK})`);
    const { rowCount } = await tx.raw<{ rowCount: number }>(
      `delete from audit_resources n where n.chain_id = ? and n.no = any(?::bigint[]) and ${IS_UNUSED}`,
      [chainId, [...candidates]],
    );
    if (rowCount > 0) await tx.raw('delete from audit_name_sheets where chain_id = ?', [chainId]);
    return rowCount;
  });
}
