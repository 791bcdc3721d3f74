import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import type { Knex } from 'knex';
import pg from 'pg';
import { clock } from '../../clock.ts';
import { PROJECT_ROOT } from '../project-root.ts';

/**
 * A migration whose first line is `-- online` runs outside a transaction, one statement after the other, because
 * `create index concurrently` refuses a transaction. It can be interrupted at any point and is run again from its first
 * statement, so each statement has to be one that changes nothing the second time.
 */
export const isOnline = (sql: string): boolean => /^-- online\s*$/m.test(sql.slice(0, sql.indexOf('\n') + 1));

const INDEX = /^create (?:unique )?index concurrently if not exists "?(\w+)"? on /i;
const ALLOWED = [INDEX, /^drop index concurrently if exists /i, /^alter table \S+ validate constraint \S+$/i];

/** The statements of an online migration. Throws for one that could block other sessions or could not run again. */
export function onlineStatements(name: string, sql: string): string[] {
  const statements = sql
    .replaceAll(/--.*$/gm, '')
    .split(';')
    .map((statement) => statement.replaceAll(/\s+/g, ' ').trim())
    .filter((statement) => statement !== '');
  for (const statement of statements) {
    if (ALLOWED.some((form) => form.test(statement))) continue;
    throw new Error(
      `Migration ${name} is online, so it may only have "create index concurrently if not exists", ` +
        `"drop index concurrently if exists" and "alter table ... validate constraint", but it has: ${statement}`,
    );
  }
  return statements;
}

/**
 * Runs the statements. They have no time limit: they take only locks that neither reading nor writing waits for, and a
 * large index takes long.
 */
export async function runOnline(connection: pg.ClientBase, statements: readonly string[]): Promise<void> {
  await connection.query('set lock_timeout = 0');
  await connection.query('set statement_timeout = 0');
  try {
    for (const statement of statements) {
      const [, index] = INDEX.exec(statement) ?? [];
      if (index !== undefined) await dropUnfinished(connection, index);
      await connection.query(statement);
    }
  } finally {
    await connection.query('reset lock_timeout');
    await connection.query('reset statement_timeout');
  }
}

/** An index whose build was interrupted stays behind as invalid: no query uses it, but `if not exists` would keep it. */
async function dropUnfinished(connection: pg.ClientBase, index: string): Promise<void> {
  const { rows } = await connection.query(
    'select from pg_index where indexrelid = to_regclass($1) and not indisvalid',
    [index],
  );
  if (rows.length > 0) await connection.query(`drop index concurrently if exists "${index}"`);
}

/** How long and how often a migration waits for locks that other sessions hold. */
export interface LockPatience {
  /** The longest wait for one lock. Every session that queues behind the migration waits as long, readers too. */
  lockTimeoutMs: number;
  /** Between the first two attempts. Each pause is twice the one before it, up to `maxPauseMs`. */
  pauseMs: number;
  maxPauseMs: number;
  attempts: number;
}

/**
 * Some five minutes in all. A wait ends well before Postgres looks for deadlocks (`deadlock_timeout`, 1 s): otherwise it
 * could end a statement of the fleet that is entangled with the migration, instead of the migration.
 */
const LOCK_PATIENCE: LockPatience = {
  lockTimeoutMs: 300,
  pauseMs: 500,
  maxPauseMs: 5000,
  attempts: 60,
};

export class BlockedMigrationError extends Error {
  constructor(name: string, attempts: number, cause: unknown) {
    super(
      `Migration ${name} did not get the locks it needs in ${attempts} attempts, because other sessions hold them. ` +
        'Nothing of it was applied. Find long transactions in pg_stat_activity, end them, and start again.',
      { cause },
    );
    this.name = 'BlockedMigrationError';
  }
}

/**
 * Runs the SQL of a migration inside the transaction that is open on the connection. If another session holds a lock
 * for longer than `lockTimeoutMs`, everything is undone, so that all of its own locks are free again, and tried again
 * later: a migration that waited for a long read would make all later statements wait behind it.
 */
async function runInTransaction(
  connection: pg.ClientBase,
  { name, sql }: { name: string; sql: string },
  { lockTimeoutMs, pauseMs, maxPauseMs, attempts }: LockPatience,
): Promise<void> {
  await connection.query(`set local lock_timeout = ${lockTimeoutMs}`);
  for (let attempt = 1; ; attempt++) {
    await connection.query('savepoint before_migration');
    try {
      await connection.query(sql);
      return;
    } catch (error) {
      if (!isLockConflict(error)) throw error;
      if (attempt >= attempts) throw new BlockedMigrationError(name, attempts, error);
      await connection.query('rollback to savepoint before_migration');
      await clock.sleep(Math.min(pauseMs * 2 ** (attempt - 1), maxPauseMs));
    }
  }
}

const LOCK_NOT_AVAILABLE = '55P03';
const DEADLOCK_DETECTED = '40P01';
const isLockConflict = (error: unknown) =>
  error instanceof pg.DatabaseError &&
  (error.code === LOCK_NOT_AVAILABLE || error.code === DEADLOCK_DETECTED);

/** The name of a migration is its file name: `0003_people.sql`. */
interface SqlMigration {
  name: string;
  sql: string;
  sha256: string;
}

export class EditedMigrationError extends Error {
  readonly files: string[];

  constructor({ edited, removed }: Pick<MigrationState, 'edited' | 'removed'>) {
    super(
      removed.length === 0
        ? `Migration ${edited.join(', ')} was changed after it had been applied to this database. ` +
            'Restore the file as it was released; a change to the schema is a new file.'
        : otherMigrationsText(edited),
    );
    this.name = 'EditedMigrationError';
    this.files = edited;
  }
}

const NAMED_MIGRATIONS = 3;

/** The message about a database whose applied migrations are not the first ones of this release. */
function otherMigrationsText(edited: readonly string[]): string {
  const more = edited.length - NAMED_MIGRATIONS;
  const names = `${edited.slice(0, NAMED_MIGRATIONS).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
  return (
    `This database was created by other migrations than those of this release: ${names} were applied to it, and ` +
    'this release does not have these files or has others under their names. A database of a version before the first ' +
    'release cannot be upgraded: use an empty one. Otherwise restore the files as they were released.'
  );
}

/** The folder of SQL files, beside `src` in a checkout and beside `dist` in an image. */
export const MIGRATIONS_DIR = path.join(PROJECT_ROOT, 'migrations');

/**
 * Settings of Knex beside the source. Each file has a transaction of its own, or none: in one transaction for all,
 * the locks of the first would be held until the last is through. And Knex would refuse a database that a later release
 * has migrated, on which this one runs as well; `prepareMigrations` checks what is in order.
 */
export const KNEX_SETTINGS = { disableTransactions: true, disableMigrationsListValidation: true } as const;

/** Knex's port for migrations, over SQL files. Forward only: rolling back is starting the earlier release. */
export class SqlMigrationSource implements Knex.MigrationSource<SqlMigration> {
  readonly #directory: string;
  readonly #patience: LockPatience;
  readonly #through: string | undefined;

  constructor(
    directory = MIGRATIONS_DIR,
    { patience = LOCK_PATIENCE, through }: Pick<MigrateOptions, 'patience' | 'through'> = {},
  ) {
    this.#directory = directory;
    this.#patience = patience;
    this.#through = through;
  }

  async getMigrations(): Promise<SqlMigration[]> {
    const all = await readMigrations(this.#directory);
    const through = this.#through;
    return through === undefined ? all : all.filter(({ name }) => name <= through);
  }

  getMigrationName(migration: SqlMigration): string {
    return migration.name;
  }

  async getMigration(
    migration: SqlMigration,
  ): Promise<Knex.Migration & { config: { transaction: boolean } }> {
    return {
      config: { transaction: !isOnline(migration.sql) },
      up: (knex) => this.#apply(knex, migration),
      async down() {
        throw new Error('Migrations go forward only. To roll back, start the earlier release.');
      },
    };
  }

  async #apply(knex: Knex, migration: SqlMigration): Promise<void> {
    // Knex notes a file after its transaction, so a process that was killed in between has applied one that Knex would
    // apply again.
    if (await isRecorded(knex, migration)) return;
    // By the driver itself: Knex takes question marks for bindings, and those behind a backslash for its own.
    const connection = (await knex.client.acquireConnection()) as pg.ClientBase;
    try {
      if (isOnline(migration.sql)) {
        await runOnline(connection, onlineStatements(migration.name, migration.sql));
      } else {
        await runInTransaction(connection, migration, this.#patience);
      }
    } finally {
      await knex.client.releaseConnection(connection);
    }
    await knex('muster_migration_checksums').insert({ name: migration.name, sha256: migration.sha256 });
  }
}

async function isRecorded(knex: Knex, { name }: SqlMigration): Promise<boolean> {
  return (await knex('muster_migration_checksums').where({ name }).first('name')) !== undefined;
}

async function readMigrations(directory: string): Promise<SqlMigration[]> {
  const names = (await readdir(directory)).filter((name) => /^\d{4}_\w+\.sql$/.test(name)).sort();
  return Promise.all(
    names.map(async (name) => {
      const sql = await readFile(path.join(directory, name), 'utf8');
      return { name, sql, sha256: createHash('sha256').update(sql).digest('hex') };
    }),
  );
}

/** Held for as long as its connection lives, so a server that dies lets the next one in. */
const MIGRATION_LOCK = 0x6d_75_73_74; // "must"

/**
 * Runs before every migration, by the server and by the Knex command line alike: waits for a migration of another
 * process, frees Knex's own lock if a killed process left it, and throws if an applied file was edited. It has to run
 * before Knex, which creates its tables without checking if another process is creating them.
 * @param session  a connection that stays open until the run is over, and the lock with it
 */
export async function prepareMigrations(session: Knex, directory = MIGRATIONS_DIR): Promise<void> {
  await takeMigrationLock(session);
  await session.raw(`create table if not exists muster_migration_checksums (
    name text primary key, sha256 char(64) not null, applied_at timestamptz(3) not null default now())`);
  // Under our lock no other process migrates: a Knex lock that is set belongs to a process that is gone.
  if (await session.schema.hasTable('knex_migrations_lock')) {
    await session('knex_migrations_lock').update({ is_locked: 0 });
  }
  await assertUnedited(session, await readMigrations(directory));
}

const LOCK_POLL_MS = 200;

/**
 * Asks for the lock again and again instead of waiting for it in the database: a statement that waits there has a
 * snapshot, for whose end `create index concurrently` in the session that holds the lock would wait for ever.
 */
export async function takeMigrationLock(session: Knex): Promise<void> {
  for (;;) {
    const { rows } = await session.raw(`select pg_try_advisory_lock(${MIGRATION_LOCK}) as got`);
    if (rows[0]?.got === true) return;
    await clock.sleep(LOCK_POLL_MS);
  }
}

/** The migrations of the database compared with the files of this program. */
export interface MigrationState {
  /** To be applied to the database. */
  pending: string[];
  /** Changed or removed after they were applied. */
  edited: string[];
  /** Applied migrations without a file. */
  removed: string[];
  /** Applied by a later release, on whose schema this one runs as well. */
  newer: string[];
}

const APPLIED = 'muster_migration_checksums';

function compare(applied: readonly AppliedMigration[], files: readonly SqlMigration[]): MigrationState {
  const current = new Map(files.map(({ name, sha256 }) => [name, sha256]));
  const last = files.at(-1)?.name ?? '';
  const names = new Set(applied.map(({ name }) => name));
  const isNewer = (name: string) => !current.has(name) && name > last;
  const edited = applied
    .filter(({ name, sha256 }) => !isNewer(name) && current.get(name) !== sha256)
    .map(({ name }) => name)
    .sort();
  return {
    pending: files.map(({ name }) => name).filter((name) => !names.has(name)),
    edited,
    removed: edited.filter((name) => !current.has(name)),
    newer: [...names].filter(isNewer).sort(),
  };
}

export interface AppliedMigration {
  name: string;
  sha256: string;
}

/** In their order; none in a database that was never migrated. */
export async function appliedMigrations(db: Knex): Promise<AppliedMigration[]> {
  const { rows } = await db.raw(`select to_regclass('${APPLIED}') is not null as present`);
  if (rows[0]?.present !== true) return [];
  return db<AppliedMigration>(APPLIED).select('name', 'sha256').orderBy('name');
}

/** With the rights of any role of ours. */
export async function migrationState(db: Knex, directory = MIGRATIONS_DIR): Promise<MigrationState> {
  return compareMigrations(await appliedMigrations(db), directory);
}

/** The same for migrations that a backup states to be applied to its database. */
export async function compareMigrations(
  applied: readonly AppliedMigration[],
  directory = MIGRATIONS_DIR,
): Promise<MigrationState> {
  return compare(applied, await readMigrations(directory));
}

async function assertUnedited(session: Knex, files: SqlMigration[]): Promise<void> {
  const state = compare(await appliedMigrations(session), files);
  if (state.edited.length > 0) throw new EditedMigrationError(state);
}

export interface MigrateOptions {
  directory?: string | undefined;
  patience?: LockPatience | undefined;
  /** The last migration to apply, for a database that is filled from a backup of that schema. */
  through?: string;
}

/**
 * Applies the pending migrations and returns their names.
 * @param lockSession  a pool of one connection, since the lock belongs to it
 */
export async function migrate(
  owner: Knex,
  lockSession: Knex,
  { directory = MIGRATIONS_DIR, ...options }: MigrateOptions = {},
): Promise<string[]> {
  await prepareMigrations(lockSession, directory);
  const [, applied] = (await owner.migrate.latest({
    ...KNEX_SETTINGS,
    migrationSource: new SqlMigrationSource(directory, options),
  })) as [number, SqlMigration[] | string[]];
  return applied.map((migration) => (typeof migration === 'string' ? migration : migration.name));
}

/** The pending files, which the serving role may read, after a check that no applied one was edited. */
export async function pendingMigrations(db: Knex, directory = MIGRATIONS_DIR): Promise<string[]> {
  const state = await migrationState(db, directory);
  if (state.edited.length > 0) throw new EditedMigrationError(state);
  return state.pending;
}

/** A migration as operators see it before it is applied. */
interface MigrationNote {
  name: string;
  /** The migration runs beside all other work, however long it takes. */
  isOnline: boolean;
  /** Tables that exist already and that it locks, each for at most 300 ms before it gives way and tries again. */
  locks: string[];
  /** The migration removes or renames something that an older release might need. */
  contracts: boolean;
}

export function migrationNotes(
  names: readonly string[],
  directory = MIGRATIONS_DIR,
): Promise<MigrationNote[]> {
  return Promise.all(
    names.map(async (name) => ({ name, ...noteOf(await readFile(path.join(directory, name), 'utf8')) })),
  );
}

const NAME = String.raw`(?:public\.)?"?(\w+)"?`;
const LOCKING = [
  `^alter table (?:if exists )?(?:only )?${NAME}`,
  `^drop table (?:if exists )?${NAME}`,
  `^create (?:unique )?index .*? on ${NAME}`,
  `^create (?:constraint )?trigger .*? on ${NAME}`,
  `^(?:update|delete from|lock table|truncate) (?:only )?${NAME}`,
].map((form) => new RegExp(form, 'i'));
const CONTRACTING =
  /^drop (table|function|view|type|column)|^alter table .*\b(drop column|rename (to|column))\b/i;

/** From the text alone. The bodies of functions run later, if at all. */
export function noteOf(sql: string): Omit<MigrationNote, 'name'> {
  const statements = sql
    .replaceAll(/--.*$/gm, '')
    .replaceAll(/\$(\w*)\$[\s\S]*?\$\1\$/g, "''")
    .split(';')
    .map((statement) => statement.replaceAll(/\s+/g, ' ').trim());
  const made = new Set(
    statements.flatMap((one) => new RegExp(`^create table ${NAME}`, 'i').exec(one)?.[1] ?? []),
  );
  const touched = statements.flatMap((one) => {
    const table = LOCKING.map((form) => form.exec(one)?.[1]).find((name) => name !== undefined);
    return table === undefined || made.has(table) ? [] : [table];
  });
  const online = isOnline(sql);
  return {
    isOnline: online,
    locks: online ? [] : [...new Set(touched)].sort(),
    contracts: statements.some((one) => CONTRACTING.test(one)),
  };
}
