import type { Knex } from 'knex';
import { copyIn } from '../bulk/copy-in.ts';
import { type DumpTable, quoted, quotedList, readTables } from './catalogue.ts';

/** Fills one table: the dump has to be asked for the tables in its own order. */
export interface LoadedTable extends DumpTable {
  pieces: AsyncIterable<Buffer>;
  /** How many rows the dump says there are. */
  rows: number;
}

export class DumpMismatchError extends Error {}

interface ForeignKey {
  table: string;
  name: string;
  definition: string;
}

interface LoadSteps {
  /** Changes loaded rows, of all tenants. @param tables  those that the schema of the dump has */
  changeRows: (tx: Knex, tables: ReadonlySet<string>) => Promise<void>;
  beforeCommit: (tx: Knex) => Promise<void>;
}

/**
 * Replaces the rows of all tables by those of a dump, in one transaction: until it commits, the database has nothing of
 * it. The caller has migrated the database to exactly the schema of the dump.
 *
 * It needs the rights of the owner and no more. Foreign keys are removed and created again, because only a superuser
 * can suspend them; they are checked then. The append-only tables of the audit trail refuse changes by triggers, which
 * the owner suspends; that nothing was changed on the way is what their chains prove afterwards.
 */
export async function loadDatabase(
  owner: Knex,
  loaded: AsyncIterable<LoadedTable>,
  { changeRows, beforeCommit }: LoadSteps,
): Promise<void> {
  await owner.transaction(async (tx) => {
    await tx.raw(
      `set local lock_timeout = '10s'; set local statement_timeout = 0;
      set local idle_in_transaction_session_timeout = 0; set local timezone = 'UTC'`,
    );
    const tables = new Map((await readTables(tx)).map((table) => [table.name, table]));
    const names = quotedList([...tables.keys()]);
    await tx.raw(`lock table ${names} in access exclusive mode`);
    const keys = await readForeignKeys(tx);
    for (const { table, name } of keys) {
      await tx.raw(`alter table ${quoted(table)} drop constraint ${quoted(name)}`);
    }
    for (const table of tables.keys()) {
      // Forced to go by its policies, the owner could neither write rows nor check the foreign keys.
      await tx.raw(`alter table ${quoted(table)} disable trigger user, no force row level security`);
    }
    await tx.raw(`truncate ${names}`);
    for await (const { name, columns, pieces, rows } of loaded) {
      const known = tables.get(name);
      if (known === undefined || known.columns.join() !== columns.join()) {
        throw new DumpMismatchError(`The backup has a table ${name} that its own migrations do not create.`);
      }
      const statement = `copy ${quoted(name)} (${quotedList(columns)}) from stdin`;
      const written = await copyIn(tx, statement, pieces);
      if (written !== rows) {
        throw new DumpMismatchError(`The backup states ${rows} rows of ${name}, and holds ${written}.`);
      }
    }
    await changeRows(tx, new Set(tables.keys()));
    await continueSequences(tx);
    await createForeignKeys(tx, keys);
    for (const table of tables.keys()) {
      await tx.raw(`alter table ${quoted(table)} enable trigger user, force row level security`);
    }
    await beforeCommit(tx);
  });
}

/** In the order of their creation, in which they also act: see rule 7 of docs/decisions/migrations.md. */
async function readForeignKeys(tx: Knex): Promise<ForeignKey[]> {
  const { rows } = await tx.raw(
    `select c.relname::text as table, k.conname::text as name, pg_get_constraintdef(k.oid) as definition
    from pg_constraint k join pg_class c on c.oid = k.conrelid
    where k.contype = 'f' and k.connamespace = 'public'::regnamespace order by k.oid`,
  );
  return rows as ForeignKey[];
}

async function createForeignKeys(tx: Knex, keys: readonly ForeignKey[]): Promise<void> {
  for (;;) {
    for (const { table, name, definition } of keys) {
      await tx.raw(`alter table ${quoted(table)} add constraint ${quoted(name)} ${definition}`);
    }
    // Postgres lets the triggers of keys act in the order of their names, which end with their number: 100000 would act
    // before 99999. Created once more, all numbers have as many digits.
    const { rows } = await tx.raw(
      `select count(distinct length(t.oid::text)) > 1 as mixed from pg_trigger t join pg_constraint k on k.oid = t.tgconstraint
      where k.contype = 'f' and k.connamespace = 'public'::regnamespace`,
    );
    if (rows[0]?.mixed !== true) return;
    for (const { table, name } of keys) {
      await tx.raw(`alter table ${quoted(table)} drop constraint ${quoted(name)}`);
    }
  }
}

/** Numbers that the database gives go on after the highest one of the dump. */
async function continueSequences(tx: Knex): Promise<void> {
  const { rows } = await tx.raw(
    `select c.relname::text as table, a.attname::text as column,
      pg_get_serial_sequence(quote_ident(c.relname), a.attname) as sequence
    from pg_attribute a join pg_class c on c.oid = a.attrelid
    where a.attidentity <> '' and c.relnamespace = 'public'::regnamespace`,
  );
  for (const { table, column, sequence } of rows as { table: string; column: string; sequence: string }[]) {
    await tx.raw(
      `select setval('${sequence}', coalesce((select max(${quoted(column)}) from ${quoted(table)}), 0) + 1, false)`,
    );
  }
}
