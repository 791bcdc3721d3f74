import { isDatabaseAway } from '../../../platform/db/database-errors.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { runPrepared } from '../../../platform/db/prepared.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import type { Logger } from '../../../platform/logger.ts';
import { NAMES_LOCK } from './name-index-cache.ts';

/** Names per full sheet. Larger sheets make a match more expensive to examine, smaller ones a mismatch to skip. */
const SHEET_SIZE = 64;
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
    return withSystem(this.#db, 'find audit chains with names that are not compacted yet', async (tx) => {
      const { rows } = await tx.raw<{ rows: { chain_id: string }[] }>(
        `select h.chain_id from audit_chain_heads h
        where exists (select from audit_resources n where n.chain_id = h.chain_id and n.no > ${compactedThrough('h')})`,
      );
      return rows.map((row) => row.chain_id);
    });
  }

  async #compactBatch(chainId: string): Promise<number> {
    return withSystem(this.#db, 'compact the names of an audit chain', async (tx) => {
      // A separate statement, so that the next one sees everything the previous lock holders committed.
      await tx.raw(`select pg_advisory_xact_lock(${NAMES_LOCK})`);
      const [done] = await runPrepared<{ compacted: number }>(tx, COMPACT, [chainId, BATCH_SIZE]);
      return done?.compacted ?? 0;
    });
  }
}

/**
 * SQL: the number of the last compacted name in the chain of a row. The `coalesce` is inside the subquery because outside
 * it Postgres does not consider the expression leakproof, and does not use the index under row level security.
 */
export const compactedThrough = (row: string) =>
  `(select coalesce(max(g.through), 0) from audit_name_sheets g where g.chain_id = ${row}.chain_id)`;

// A sheet that is not full is rewritten together with the new names.
const COMPACT = {
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
