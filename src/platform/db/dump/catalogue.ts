import type { Knex } from 'knex';
import { UNPROTECTED_TABLES } from '../roles.ts';

/** A table of Muster with the columns that a dump holds: all but the generated ones. */
export interface DumpTable {
  name: string;
  columns: string[];
}

/**
 * The tables of this database in the order of their names, without the records of migrations, which a dump states
 * apart: they are what a restore creates the tables from.
 */
export async function readTables(db: Knex): Promise<DumpTable[]> {
  const { rows } = await db.raw(
    `select c.relname::text as name,
      array(select a.attname::text from pg_attribute a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
        order by a.attnum) as columns
    from pg_class c
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and c.relname <> all (?)
    order by c.relname collate "C"`,
    [UNPROTECTED_TABLES],
  );
  return rows as DumpTable[];
}

/** A name of the catalogue as a part of a statement. */
export const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;

export const quotedList = (names: readonly string[]) => names.map(quoted).join(', ');

/**
 * The tables with rows that a server or a user has written: none in a database that was only migrated.
 * @param seeded  how many rows migrations put into a table; all others are empty then
 */
export async function usedTables(owner: Knex, seeded: Readonly<Record<string, number>>): Promise<string[]> {
  const used: string[] = [];
  for (const { name } of await readTables(owner)) {
    // A table can be huge; one row more than the seeded ones is enough to know.
    const most = seeded[name] ?? 0;
    const { rows } = await owner.raw(
      `select count(*)::int as rows from (select from ${quoted(name)} limit ${most + 1}) as few`,
    );
    if (rows[0]?.rows > most) used.push(name);
  }
  return used;
}
