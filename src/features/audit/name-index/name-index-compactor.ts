import { Daily } from '../../../platform/daily.ts';
import { isDatabaseAway } from '../../../platform/db/database-errors.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { runPrepared } from '../../../platform/db/prepared.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import type { Logger } from '../../../platform/logger.ts';
import { NAMES_LOCK } from './name-index-cache.ts';

/** So many names stand on a full sheet: more make it dear to find those that fit, fewer to pass over those that don't. */
const SHEET = 64;
/** So many new names of a chain are put on sheets at once. */
const AT_ONCE = 20_000;

/** Puts the names that were noted since the last round on sheets, once a day: sealing has nothing to do with it. */
export class NameIndexCompactor {
  readonly #db: Db;
  readonly #log: Logger;
  readonly #daily: Daily;
  #isClosed = false;

  constructor({ db, log }: { db: Db; log: Logger }) {
    this.#db = db;
    this.#log = log;
    const run = async () => ({ gathered: await this.gather() });
    this.#daily = new Daily({ run, log, done: 'audit.names_compacted', failed: 'audit.names_not_compacted' });
  }

  start(): void {
    this.#daily.start();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#daily.close();
  }

  /** One round through all chains. Answers how many names were new. */
  async gather(): Promise<number> {
    let gathered = 0;
    for (const chainId of await this.#due()) {
      try {
        let some = AT_ONCE;
        while (some === AT_ONCE && !this.#isClosed) {
          some = await this.#gatherSome(chainId);
          gathered += some;
        }
      } catch (error) {
        // The other chains get their turn; this one has the next tomorrow.
        if (isDatabaseAway(error)) throw error;
        this.#log.warn({ err: error, chainId }, 'audit.names_of_chain_not_gathered');
      }
    }
    return gathered;
  }

  async #due(): Promise<string[]> {
    return withSystem(this.#db, 'find the chains with names that are on no sheet yet', async (tx) => {
      const { rows } = await tx.raw<{ rows: { chain_id: string }[] }>(
        `select h.chain_id from audit_chain_heads h
        where exists (select from audit_resources n where n.chain_id = h.chain_id and n.no > ${compactedThrough('h')})`,
      );
      return rows.map((row) => row.chain_id);
    });
  }

  async #gatherSome(chainId: string): Promise<number> {
    return withSystem(this.#db, 'put names of a chain on sheets', async (tx) => {
      // A statement of its own: what follows sees what the last holders have committed.
      await tx.raw(`select pg_advisory_xact_lock(${NAMES_LOCK})`);
      const [done] = await runPrepared<{ gathered: number }>(tx, GATHER, [chainId, AT_ONCE]);
      return done?.gathered ?? 0;
    });
  }
}

/**
 * SQL: the number of the last name that is on a sheet, of the chain of a row. The `coalesce` inside: outside it would pass
 * for a leak, and the index not be used where row level security holds.
 */
export const compactedThrough = (row: string) =>
  `(select coalesce(max(g.through), 0) from audit_name_sheets g where g.chain_id = ${row}.chain_id)`;

// A sheet that is not full yet is written anew, together with what was noted since.
const GATHER = {
  name: 'audit-gather-names',
  text: `
    with fresh as (
      select n.no, n.resource_type, n.resource_name from (select $1::uuid as chain_id) c
      join audit_resources n on n.chain_id = c.chain_id and n.no > ${compactedThrough('c')}
      order by n.no limit $2::int
    ),
    rewritten as (
      delete from audit_name_sheets where chain_id = $1::uuid and cardinality(names) < ${SHEET}
        and resource_type in (select resource_type from fresh)
      returning resource_type, names
    ),
    numbered as (
      select resource_type, resource_name,
        (row_number() over (partition by resource_type order by resource_name) - 1) / ${SHEET} as sheet
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
    select count(*)::int as gathered from fresh`,
};
