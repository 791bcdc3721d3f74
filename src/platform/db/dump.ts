import { copyOut, copyIn } from './copy.ts';
import { openSession } from './pool.ts';
import { type Tx, withSystem } from './transaction.ts';
import type { Knex } from 'knex';
import { UNPROTECTED_TABLES } from './roles.ts';

/** The names of connections that only a running server opens. */
const SERVER_CONNECTIONS = [
  'muster-notifications',
  'muster-queue',
  'muster-hub',
  'muster-jobs',
  'muster-store',
];

export async function hasServers(db: Knex): Promise<boolean> {
  const { rows } = await db.raw(
    `select exists (select from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid() and application_name = any (?)) as present`,
    [SERVER_CONNECTIONS],
  );
  return rows[0]?.present === true;
}

/** A table of Muster with the columns that a dump holds: all but the generated ones. */
export interface DumpTable {
  name: string;
  columns: string[];
}

/** A table as this database has it. */
interface PresentTable extends DumpTable {
  /** The time by which the table has partitions, if none of them takes what has no place; their rows are those of the table. */
  partitionedBy: string | null;
}

/**
 * The tables of this database in the order of their names, without the records of migrations, which a dump states
 * apart: they are what a restore creates the tables from.
 */
export async function readTables(db: Knex): Promise<PresentTable[]> {
  const { rows } = await db.raw(
    `select c.relname::text as name,
      array(select a.attname::text from pg_attribute a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
        order by a.attnum) as columns,
      (select a.attname::text from pg_partitioned_table p
        join pg_attribute a on a.attrelid = p.partrelid and a.attnum = p.partattrs[0]
        where p.partrelid = c.oid and p.partstrat = 'r' and p.partnatts = 1 and p.partdefid = 0) as "partitionedBy"
    from pg_class c
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
      and c.relname <> all (?)
    order by c.relname collate "C"`,
    [UNPROTECTED_TABLES],
  );
  return rows as PresentTable[];
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

/** One moment of a database, in which all tables are read. */
export interface DatabaseSnapshot {
  /** Such as `15.10`. */
  postgres: string;
  tables: DumpTable[];
  /** The rows of a table in the text format of COPY, in pieces that end with a row. */
  rows(table: DumpTable, onPiece: (piece: Buffer, rows: number) => Promise<void>): Promise<void>;
}

/** A piece is handed on when it has so many bytes. */
const PIECE_BYTES = 4 << 20;

/**
 * Reads the database with the rights of the serving role, across tenants, while servers use it. Nothing of it waits for
 * them, nor they for it; like any long reading, it keeps the database from reclaiming space meanwhile.
 */
export async function withSnapshot<T>(
  appUrl: string,
  work: (snapshot: DatabaseSnapshot, tx: Tx) => Promise<T>,
): Promise<T> {
  const db = openSession(appUrl, 'muster-backup');
  try {
    return await withSystem(db, 'back up the database', async (tx) => {
      await tx.raw(
        `set transaction isolation level repeatable read, read only;
        set local statement_timeout = 0; set local idle_in_transaction_session_timeout = 0;
        set local timezone = 'UTC'; set local datestyle = 'ISO, YMD'; set local intervalstyle = 'postgres';
        set local bytea_output = 'hex'; set local extra_float_digits = 3`,
      );
      const { rows } = await tx.raw(`select current_setting('server_version') as postgres`);
      const tables = await readTables(tx);
      return work(
        {
          postgres: String(rows[0]?.postgres),
          tables,
          rows: (table, onPiece) => readRows(tx, table, onPiece),
        },
        tx,
      );
    });
  } finally {
    await db.destroy();
  }
}

async function readRows(
  tx: Tx,
  { name, columns }: DumpTable,
  onPiece: (piece: Buffer, rows: number) => Promise<void>,
): Promise<void> {
  let lines: Buffer[] = [];
  let bytes = 0;
  const take = (): [Buffer, number] => {
    const piece: [Buffer, number] = [Buffer.concat(lines, bytes), lines.length];
    lines = [];
    bytes = 0;
    return piece;
  };
  await copyOut(tx, `select ${quotedList(columns)} from ${quoted(name)}`, (line) => {
    const kept = Buffer.allocUnsafe(line.length + 1);
    line.copy(kept);
    kept[line.length] = 0x0a;
    lines.push(kept);
    bytes += kept.length;
    return bytes < PIECE_BYTES ? undefined : onPiece(...take());
  });
  if (lines.length > 0) await onPiece(...take());
}

/**
 * Removes every table and function of Muster, so that migrations can begin from nothing. What extensions have put into
 * the same schema, as managed databases do, stays.
 */
export async function clearDatabase(owner: Knex): Promise<void> {
  await owner.transaction(async (tx) => {
    const { rows: tables } = await tx.raw(
      `select c.relname::text as name from pg_class c
      where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition and not ${ofExtension('c', 'pg_class')}`,
    );
    const names = (tables as { name: string }[]).map(({ name }) => quoted(name));
    if (names.length > 0) await tx.raw(`drop table ${names.join(', ')} cascade`);
    const { rows: functions } = await tx.raw(
      `select p.oid::regprocedure::text as name from pg_proc p
      where p.pronamespace = 'public'::regnamespace and not ${ofExtension('p', 'pg_proc')}`,
    );
    for (const { name } of functions as { name: string }[]) {
      await tx.raw(`drop function if exists ${name} cascade`);
    }
  });
}

const ofExtension = (alias: string, catalogue: string) =>
  `exists (select from pg_depend d where d.classid = '${catalogue}'::regclass and d.objid = ${alias}.oid and d.deptype = 'e')`;

/** Fills one table: the dump has to be asked for the tables in its own order. */
export interface LoadedTable extends DumpTable {
  pieces: AsyncIterable<Buffer>;
  /** How many rows the dump says there are. */
  rows: number;
}

class DumpMismatchError extends Error {}

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
      const written = await loadRows(tx, known, pieces);
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

/** Rows of a table with partitions by time are loaded apart first, because the partitions for their times are missing. */
async function loadRows(
  tx: Knex,
  { name, columns, partitionedBy }: PresentTable,
  pieces: AsyncIterable<Buffer>,
): Promise<number> {
  const list = quotedList(columns);
  if (partitionedBy === null) return copyIn(tx, `copy ${quoted(name)} (${list}) from stdin`, pieces);
  await tx.raw(`create temporary table loaded_rows (like ${quoted(name)}) on commit drop`);
  const written = await copyIn(tx, `copy loaded_rows (${list}) from stdin`, pieces);
  await tx.raw(
    `select add_partitions('${name}', min(${quoted(partitionedBy)}), max(${quoted(partitionedBy)}))
    from loaded_rows having count(*) > 0`,
  );
  await tx.raw(`insert into ${quoted(name)} (${list}) select ${list} from loaded_rows`);
  await tx.raw('drop table loaded_rows');
  return written;
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
