import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { Config } from '../../config.ts';
import { endEverySession } from '../../features/auth/index.ts';
import { openDatabase } from '../../platform/db/database.ts';
import { clearDatabase } from '../../platform/db/dump/clear-database.ts';
import { SYSTEM_ROLES } from '../../features/users/index.ts';
import { usedTables } from '../../platform/db/dump/catalogue.ts';
import { loadDatabase } from '../../platform/db/dump/load-database.ts';
import { hasServers } from '../../platform/db/dump/servers-on-database.ts';
import { startEmbeddedPostgres } from '../../platform/db/embedded/index.ts';
import {
  appliedMigrations,
  compareMigrations,
  migrate,
  takeMigrationLock,
} from '../../platform/db/migrations/migrations.ts';
import { type Db, openSession } from '../../platform/db/pool.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import type { Logger } from '../../platform/logger.ts';
import { writePrivate } from '../../platform/secrets/own-files.ts';
import { keyIdOf } from '../../platform/secrets/sealed.ts';
import {
  ENCRYPTION_KEY_FILE,
  JWT_SECRET_FILE,
  resolveDatabaseAndSecrets,
} from '../../database-and-secrets.ts';
import { recordAsOperator } from '../record-as-operator.ts';
import type { Manifest } from './archive/manifest.ts';
import type { Keys } from './archive/sealed-keys.ts';
import { giveTo, restoreFiles } from './restore-files.ts';
import { tablesOf } from './restore-rows.ts';
import type { VerifiedBackup } from './verify-backup.ts';

export class RestoreRefused extends Error {}

/** The rows are there, and a step after them has failed. */
export class RestoreUnfinished extends Error {}

export interface RestoreChoice extends VerifiedBackup {
  file: string;
  /** Removes what the database holds now. */
  replace: boolean;
  config: Config;
  log: Logger;
  onStep: (step: string) => void;
}

export interface RestoreResult {
  /** `already`: an earlier run had restored the database, and this one has finished what was left. */
  database: 'restored' | 'already';
}

/**
 * Restores a verified backup. Until the last step the database has no row of it, and a run that was interrupted at any
 * point is repeated by running it again.
 */
export async function restoreBackup(choice: RestoreChoice): Promise<RestoreResult> {
  const { config, keys, manifest, log } = choice;
  await assertSchemaIsKnown(manifest);
  await assertKeysFit(config, manifest, keys);
  const embedded =
    config.database.kind === 'embedded'
      ? await startEmbeddedPostgres({ dataDir: config.dataDir, log })
      : undefined;
  try {
    const ownerUrl =
      embedded?.ownerUrl ?? (config.database.kind === 'external' ? config.database.ownerUrl : undefined);
    if (ownerUrl === undefined) {
      throw new RestoreRefused('Set DATABASE_URL: a restore creates the tables, which only the owner can.');
    }
    const database = await restoreAsOwner(ownerUrl, choice);
    choice.onStep('Applying later migrations');
    await finish(choice, ownerUrl, await resolveDatabaseAndSecrets(config, embedded)).catch(
      (error: unknown) => {
        throw new RestoreUnfinished('A step after the restore of the database has failed.', { cause: error });
      },
    );
    return { database };
  } finally {
    await embedded?.stop();
  }
}

async function assertSchemaIsKnown({ schema, release }: Manifest): Promise<void> {
  const { newer, edited } = await compareMigrations(schema);
  if (newer.length > 0) {
    throw new RestoreRefused(
      `The backup is of a newer schema (${newer.at(-1)}) than this release knows. Restore it with release ${release} of Muster or a later one.`,
    );
  }
  if (edited.length > 0) {
    throw new RestoreRefused(
      `The backup is of a database whose migration ${edited[0]} is not the one of this release.`,
    );
  }
}

/** Without the right key every secret in the database would be lost, which nobody would see until it is needed. */
async function assertKeysFit(
  config: Config,
  { keys: { encryptionKeyId, included } }: Manifest,
  keys: Keys | undefined,
): Promise<void> {
  if (config.encryptionKey !== undefined) {
    const known = [config.encryptionKey, ...config.oldEncryptionKeys].map(keyIdOf);
    if (known.includes(encryptionKeyId)) return;
    throw new RestoreRefused(
      included
        ? 'SECRET_ENCRYPTION_KEY is another key than that of the backup. Write the environment of the backup to a file with --environment-to, and take the key from there.'
        : 'SECRET_ENCRYPTION_KEY is another key than that of the backup, which holds no keys. Set the key that the installation had.',
    );
  }
  if (keys !== undefined) return;
  if (included) {
    throw new RestoreRefused(
      'Give the passphrase of the backup, with --passphrase-file or --passphrase-stdin.',
    );
  }
  const stored = await readFile(path.join(config.dataDir, ENCRYPTION_KEY_FILE), 'utf8').catch(() => '');
  if (stored.trim() !== '' && keyIdOf(stored.trim()) === encryptionKeyId) return;
  throw new RestoreRefused(
    `The backup holds no keys. Set SECRET_ENCRYPTION_KEY, or put the file ${ENCRYPTION_KEY_FILE} of the installation into ${config.dataDir}.`,
  );
}

async function restoreAsOwner(ownerUrl: string, choice: RestoreChoice): Promise<RestoreResult['database']> {
  const { config, file, keys, manifest, onStep } = choice;
  const owner = openSession(ownerUrl, 'muster-restore');
  const lockSession = openSession(ownerUrl, 'muster-restore-lock');
  try {
    if (await hasServers(owner)) {
      throw new RestoreRefused('A Muster server is connected to this database. Stop it first.');
    }
    // A server that starts meanwhile waits for it.
    await takeMigrationLock(lockSession);
    if (!choice.replace && (await restoredFrom(owner)) === manifest.id) return 'already';
    await prepareDatabase(owner, choice);
    onStep('Restoring keys and files');
    if (keys !== undefined) await placeKeys(config, keys);
    await restoreFiles(file, manifest, config.dataDir);
    onStep('Creating the schema of the backup');
    const last = manifest.schema.at(-1);
    if (last !== undefined) await migrate(owner, lockSession, { through: last.name });
    onStep('Restoring the database');
    await loadDatabase(owner, tablesOf(file, manifest), {
      changeRows: endSignIns,
      beforeCommit: (tx) => markRestored(tx, manifest.id),
    });
    return 'restored';
  } finally {
    await owner.destroy();
    await lockSession.destroy();
  }
}

/** What migrations put into a database. */
export const SEEDED_ROWS = { alert_rounds: 1, roles: Object.keys(SYSTEM_ROLES).length };

/** Leaves a database that has no rows, and at most a part of the backup's migrations. */
async function prepareDatabase(owner: Db, { manifest, replace }: RestoreChoice): Promise<void> {
  const applied = await appliedMigrations(owner);
  const used = applied.length === 0 ? await foreignTables(owner) : await usedTables(owner, SEEDED_ROWS);
  if (used.length > 0 && !replace) {
    const some = used.slice(0, 3).join(', ');
    throw new RestoreRefused(
      `The database is not empty (${some}${used.length > 3 ? ` and ${used.length - 3} more tables` : ''}). Restore into an empty one, or remove what it holds with --replace.`,
    );
  }
  const isBeginning = applied.every(({ name, sha256 }, at) => {
    const wanted = manifest.schema[at];
    return wanted?.name === name && wanted.sha256 === sha256;
  });
  if (used.length > 0 || !isBeginning) await clearDatabase(owner);
}

/** Tables of another program, in a database without the tables of Muster. */
async function foreignTables(owner: Db): Promise<string[]> {
  const { rows } = await owner.raw(
    `select relname::text as name from pg_class c where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')
      and relname not like 'knex_migrations%' and relname <> 'muster_migration_checksums'
      and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
    order by relname`,
  );
  return (rows as { name: string }[]).map(({ name }) => name);
}

/** What is under way between a person and a session. */
const UNFINISHED_SIGN_INS = ['sso_exchange_codes', 'sso_sessions', 'mfa_challenges', 'password_resets'];

/** A session that was ended after the backup would be open again, so all sessions end. People sign in again. */
async function endSignIns(tx: Db, tables: ReadonlySet<string>): Promise<void> {
  await endEverySession(tx, 'installation_restored');
  for (const table of UNFINISHED_SIGN_INS) {
    if (tables.has(table)) await tx.raw(`delete from ${table}`);
  }
}

const MARK = 'restored from the backup ';

/** In the transaction of the rows, so that it is there exactly if they are. */
async function markRestored(tx: Db, id: string): Promise<void> {
  await tx.raw(`comment on table muster_migration_checksums is '${MARK}${id}'`);
}

async function restoredFrom(owner: Db): Promise<string | undefined> {
  const { rows } = await owner.raw(
    `select obj_description(to_regclass('public.muster_migration_checksums'), 'pg_class') as mark`,
  );
  const mark: unknown = rows[0]?.mark;
  return typeof mark === 'string' && mark.startsWith(MARK) ? mark.slice(MARK.length) : undefined;
}

/** On the embedded default, where the keys are files of the data folder; elsewhere the environment gives them. */
async function placeKeys({ database, dataDir, ...config }: Config, keys: Keys): Promise<void> {
  if (database.kind !== 'embedded') return;
  const files: [string, string][] = [];
  if (config.jwtSecret === undefined) files.push([JWT_SECRET_FILE, keys.jwtSecret]);
  if (config.encryptionKey === undefined) files.push([ENCRYPTION_KEY_FILE, keys.encryptionKey]);
  for (const [name, secret] of files) {
    const file = path.join(dataDir, name);
    const present = await readFile(file, 'utf8').catch(() => '');
    if (present.trim() === secret) continue;
    // The key of an empty database; nobody knows for what else its owner has used it.
    if (present !== '') await writePrivate(`${file}.before-restore`, present);
    await writePrivate(file, `${secret}\n`);
    await giveTo(dataDir, [file]);
  }
}

/** What a start of the server does too: later migrations and the sign-in of the roles. */
async function finish(
  { log, manifest }: RestoreChoice,
  ownerUrl: string,
  { database: urls }: Awaited<ReturnType<typeof resolveDatabaseAndSecrets>>,
): Promise<void> {
  const owner = openSession(ownerUrl, 'muster-restore');
  // Without statistics, the first statements of a server would be planned for empty tables.
  try {
    await owner.raw('analyze');
  } finally {
    await owner.destroy();
  }
  const database = await openDatabase({ ...urls, autoMigrate: true, poolSize: 2, log });
  try {
    await withSystem(database.pool, 'record a restore of the installation', (tx) =>
      recordAsOperator(tx, log, {
        action: 'installation.restore',
        resourceType: 'installation',
        resourceId: manifest.id,
        details: { createdAt: manifest.createdAt, release: manifest.release },
      }),
    );
  } finally {
    await database.close();
  }
}
