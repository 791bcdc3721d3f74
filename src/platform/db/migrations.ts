import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import type { Knex } from 'knex';
import type pg from 'pg';
import { clock } from '../../../clock.ts';
import { PROJECT_ROOT } from '../../project-root.ts';
import { LOCK_PATIENCE, type LockPatience, runInTransaction } from './locking-migration.ts';
import { isOnline, onlineStatements, runOnline } from './online-migration.ts';

/** The name of a migration is its file name: `0003_identity.sql`. */
interface SqlMigration {
  name: string;
  sql: string;
  sha256: string;
}

export class EditedMigrationError extends Error {
  readonly files: string[];

  constructor(files: string[]) {
    super(
      `Migration ${files.join(', ')} was changed or removed after it had been applied to this database. ` +
        'Restore the file as it was released; a change to the schema is a new file.',
    );
    this.name = 'EditedMigrationError';
    this.files = files;
  }
}

/** The folder of SQL files, beside `src` in a checkout and beside `dist` in an image. */
export const MIGRATIONS_DIR = path.join(PROJECT_ROOT, 'migrations');

/**
 * What Knex has to know beside the source. Each file has a transaction of its own, or none: in one transaction for all,
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
  // Under our lock nobody else migrates: a Knex lock that is set belongs to a process that is gone.
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

/** What the database and the files of this program have of each other's migrations. */
export interface MigrationState {
  /** To be applied to the database. */
  pending: string[];
  /** Changed or removed after they were applied. */
  edited: string[];
  /** Applied by a later release, on whose schema this one runs as well. */
  newer: string[];
}

const APPLIED = 'muster_migration_checksums';

function compare(applied: readonly AppliedMigration[], files: readonly SqlMigration[]): MigrationState {
  const current = new Map(files.map(({ name, sha256 }) => [name, sha256]));
  const last = files.at(-1)?.name ?? '';
  const names = new Set(applied.map(({ name }) => name));
  const isNewer = (name: string) => !current.has(name) && name > last;
  return {
    pending: files.map(({ name }) => name).filter((name) => !names.has(name)),
    edited: applied
      .filter(({ name, sha256 }) => !isNewer(name) && current.get(name) !== sha256)
      .map(({ name }) => name)
      .sort(),
    newer: [...names].filter(isNewer).sort(),
  };
}

export interface AppliedMigration {
  name: string;
  sha256: string;
}

/** In their order; none in a database that nobody has migrated. */
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
  const { edited } = compare(await appliedMigrations(session), files);
  if (edited.length > 0) throw new EditedMigrationError(edited);
}

export interface MigrateOptions {
  directory?: string | undefined;
  patience?: LockPatience | undefined;
  /** The last migration to apply, for a database that is filled from a backup of that schema. */
  through?: string;
}

/**
 * Applies what is pending and answers the names applied.
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

/** What a server may know with the rights of the serving role: pending files, after a check that none was edited. */
export async function pendingMigrations(db: Knex, directory = MIGRATIONS_DIR): Promise<string[]> {
  const { pending, edited } = await migrationState(db, directory);
  if (edited.length > 0) throw new EditedMigrationError(edited);
  return pending;
}
