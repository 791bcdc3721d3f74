import type { Tx } from '../../platform/db/transaction.ts';
import type { Statement } from '../../platform/db/statement.ts';

/**
 * Removes names that no entry uses from the name index: e-mail addresses and resource names must not outlive the pruned
 * entries that held them (docs/decisions/audit-chain.md).
 */

const REMOVED_AT_ONCE = 5000;

/** Chains pruned within this time are examined, so that an interrupted run is completed by a later one. */
const RECENTLY = `interval '7 days'`;

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

const OF_RESOURCE = 'e.resource_type = n.resource_type and e.resource_name = n.resource_name';

const IS_UNUSED = `${unused('audit_logs', OF_RESOURCE)} and ${unused('audit_outbox', OF_RESOURCE)}`;

/** Rows without a name hold no personal data and are kept. */
const FIND_RESOURCES = `
  select n.no, n.resource_name is not null and ${IS_UNUSED} as is_unused
  from audit_resources n where n.chain_id = ? and n.no > ? order by n.no limit ${REMOVED_AT_ONCE}`;

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

/** Names per full sheet. Larger sheets make a match more expensive to examine, smaller ones a mismatch to skip. */
const SHEET_SIZE = 64;

/**
 * SQL: the number of the last compacted name in the chain of a row. The `coalesce` is inside the subquery because outside
 * it Postgres does not consider the expression leakproof, and does not use the index under row level security.
 */
export const compactedThrough = (row: string) =>
  `(select coalesce(max(g.through), 0) from audit_name_sheets g where g.chain_id = ${row}.chain_id)`;

// A sheet that is not full is rewritten together with the new names.
export const COMPACT = {
  name: 'audit-compact-names',
  text: `
    with fresh as (
      select n.no, n.resource_type, n.resource_name from (select $1::uuid as chain_id) c
      join audit_resources n on n.chain_id = c.chain_id and n.no > ${compactedThrough('c')}
      order by n.no limit $2::int
    ),
    rewritten as (
      delete from audit_name_sheets where chain_id = $1::uuid and cardinality(names) < ${SHEET_SIZE}
        and resource_type in (select resource_type from fresh)
      returning resource_type, names
    ),
    numbered as (
      select resource_type, resource_name,
        (row_number() over (partition by resource_type order by resource_name) - 1) / ${SHEET_SIZE} as sheet
      from (
        select resource_type, resource_name from fresh
        union all
        select r.resource_type, name from rewritten r, unnest(r.names) as name
      ) named
    ),
    written as (
      insert into audit_name_sheets (chain_id, resource_type, through, sheet, names, small_letters)
      select $1::uuid, resource_type, (select max(no) from fresh), sheet, array_agg(resource_name),
        concat_ws(chr(10), lower(resource_type), string_agg(lower(resource_name), chr(10)))
      from numbered group by resource_type, sheet
    )
    select count(*)::int as compacted from fresh`,
};

/** Waits until no transaction inserts names, and keeps it so until the transaction ends. */
export async function lockNames(tx: Tx): Promise<void> {
  await tx.raw(`select pg_advisory_xact_lock(${NAMES_LOCK})`);
}

export async function recentlyPrunedChains(tx: Tx): Promise<string[]> {
  const { rows } = await tx.raw<{ rows: { chain_id: string }[] }>(
    `select distinct chain_id from audit_checkpoints where kind = 'cut' and at > now() - ${RECENTLY} order by chain_id`,
  );
  return rows.map((row) => row.chain_id);
}

export async function deleteUnusedActors(tx: Tx, chainId: string): Promise<number> {
  const { rowCount } = await tx.raw<{ rowCount: number }>(REMOVE_ACTORS, [chainId]);
  return rowCount;
}

/** The next resources of a chain, each with whether no entry names it. */
export async function resourcesAfter(
  tx: Tx,
  chainId: string,
  no: string,
): Promise<{ no: string; is_unused: boolean }[]> {
  const { rows } = await tx.raw<{ rows: { no: string; is_unused: boolean }[] }>(FIND_RESOURCES, [
    chainId,
    no,
  ]);
  return rows;
}

export async function deleteUnusedResources(
  tx: Tx,
  chainId: string,
  candidates: readonly string[],
): Promise<number> {
  await lockNames(tx);
  const { rowCount } = await tx.raw<{ rowCount: number }>(
    `delete from audit_resources n where n.chain_id = ? and n.no = any(?::bigint[]) and ${IS_UNUSED}`,
    [chainId, [...candidates]],
  );
  if (rowCount > 0) await tx.raw('delete from audit_name_sheets where chain_id = ?', [chainId]);
  return rowCount;
}

export async function chainsToCompact(tx: Tx): Promise<string[]> {
  const { rows } = await tx.raw<{ rows: { chain_id: string }[] }>(
    `select h.chain_id from audit_chain_heads h
    where exists (select from audit_resources n where n.chain_id = h.chain_id and n.no > ${compactedThrough('h')})`,
  );
  return rows.map((row) => row.chain_id);
}
