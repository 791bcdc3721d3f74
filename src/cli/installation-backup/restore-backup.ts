import { analyze, foreignTables, markRestored, restoredFrom } from '../installation.queries.ts';
import { readFile, type FileHandle, chown, mkdir, stat } from 'node:fs/promises';
import path from 'node:path';
import type { Config } from '../../config.ts';
import { endEverySession } from '../../features/auth/index.ts';
import { openDatabase } from '../../platform/db/database.ts';
import {
  clearDatabase,
  usedTables,
  loadDatabase,
  type LoadedTable,
  hasServers,
} from '../../platform/db/dump.ts';
import { SYSTEM_ROLES } from '../../features/users/index.ts';
import { startEmbeddedPostgres } from '../../platform/db/embedded/index.ts';
import {
  appliedMigrations,
  compareMigrations,
  migrate,
  takeMigrationLock,
} from '../../platform/db/migrations.ts';
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
import { recordAsOperator } from '../with-installation.ts';
import {
  type Manifest,
  RELEASE_ENTRY,
  STORE_ENTRY,
  DATABASE_ENTRY,
  PIECE_MAX,
  type Keys,
} from './manifest.ts';
import { releasesFolder, storeFolder } from './installation-files.ts';
import type { VerifiedBackup } from './verify-backup.ts';
import { ArchiveError, readArchive, type ReadEntry, bytesOf } from './archive.ts';
import { writeWhole } from '../whole-file.ts';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';

const unpack = promisify(gunzip);

/** The rows of a backup, table by table. Each piece is compared with the manifest again. */
async function* tablesOf(file: string, manifest: Manifest): AsyncGenerator<LoadedTable> {
  const tables = new Map(manifest.tables.map((table) => [table.name, table]));
  const pieces = new Pieces(file, manifest);
  try {
    await pieces.advance();
    while (pieces.table !== undefined) {
      const table = tables.get(pieces.table);
      if (table === undefined) {
        throw new ArchiveError(`The backup has rows of ${pieces.table}, which its manifest lacks.`);
      }
      yield { ...table, pieces: pieces.rowsOf(table.name) };
    }
  } finally {
    await pieces.close();
  }
}

/** The entries of the database, in the order of the archive. */
class Pieces {
  readonly #entries: AsyncGenerator<ReadEntry>;
  readonly #sums: ReadonlyMap<string, string>;
  #next: { entry: ReadEntry; table: string } | undefined;

  constructor(file: string, { parts }: Manifest) {
    this.#entries = readArchive(file);
    this.#sums = new Map(parts.map(({ name, sha256 }) => [name, sha256]));
  }

  /** The table of the next piece; `undefined` after the last one. */
  get table(): string | undefined {
    return this.#next?.table;
  }

  async advance(): Promise<void> {
    for (;;) {
      const { value, done } = await this.#entries.next();
      const [, table] = done === true ? [] : (DATABASE_ENTRY.exec(value.name) ?? []);
      this.#next = done === true || table === undefined ? undefined : { entry: value, table };
      if (done === true || table !== undefined) return;
    }
  }

  async *rowsOf(table: string): AsyncGenerator<Buffer> {
    while (this.#next?.table === table) {
      const { entry } = this.#next;
      const packed = await bytesOf(entry, PIECE_MAX);
      if (entry.sha256() !== this.#sums.get(entry.name)) {
        throw new ArchiveError(`${entry.name} is not what was verified: the file was changed meanwhile.`);
      }
      yield await unpack(packed);
      await this.advance();
    }
  }

  async close(): Promise<void> {
    await this.#entries.return(undefined);
  }
}

export class RestoreRefused extends Error {}

/** The rows are restored, and a later step has failed. */
export class RestoreUnfinished extends Error {}

export interface RestoreChoice extends VerifiedBackup {
  file: string;
  /** Removes the existing data of the database. */
  replace: boolean;
  config: Config;
  log: Logger;
  onStep: (step: string) => void;
}

export interface RestoreResult {
  /** `already`: an earlier run had restored the database, and this one has completed the remaining steps. */
  database: 'restored' | 'already';
}

/**
 * Restores a verified backup. Before the last step the database contains no row of it; an interrupted run can be
 * repeated.
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

async function assertSchemaIsKnown({ schema }: Manifest): Promise<void> {
  const { newer, edited } = await compareMigrations(schema);
  if (edited.length > 0) {
    throw new RestoreRefused(
      `The backup is of a database whose migration ${edited[0]} is not the one of this release.`,
    );
  }
  if (newer.length > 0) {
    throw new RestoreRefused(
      `The backup is of a database with the migration ${newer.at(-1)}, which this release does not have. Restore it with a release that has it.`,
    );
  }
}

/** With a wrong key every secret in the database would be lost, which would only be noticed when one is needed. */
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

/** Tables that migrations fill. */
export const SEEDED_ROWS = { alert_rounds: 1, metric_progress: 1, roles: Object.keys(SYSTEM_ROLES).length };

/** Accepts a database without rows, and with at most a part of the backup's migrations. */
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

/** Tables of unfinished sign-ins. */
const UNFINISHED_SIGN_INS = [
  'sso_exchange_codes',
  'sso_sessions',
  'mfa_challenges',
  'passkey_challenges',
  'password_resets',
];

/** Sessions that ended after the backup would be active again, so all sessions are ended. Users sign in again. */
async function endSignIns(tx: Db, tables: ReadonlySet<string>): Promise<void> {
  await endEverySession(tx, 'installation_restored');
  for (const table of UNFINISHED_SIGN_INS) {
    if (tables.has(table)) await tx(table).delete();
  }
}

/** For the embedded database, whose keys are files in the data folder; otherwise they come from the environment. */
async function placeKeys({ database, dataDir, ...config }: Config, keys: Keys): Promise<void> {
  if (database.kind !== 'embedded') return;
  const files: [string, string][] = [];
  if (config.jwtSecret === undefined) files.push([JWT_SECRET_FILE, keys.jwtSecret]);
  if (config.encryptionKey === undefined) files.push([ENCRYPTION_KEY_FILE, keys.encryptionKey]);
  for (const [name, secret] of files) {
    const file = path.join(dataDir, name);
    const present = await readFile(file, 'utf8').catch(() => '');
    if (present.trim() === secret) continue;
    // The key of an empty database; its owner may have used it elsewhere.
    if (present !== '') await writePrivate(`${file}.before-restore`, present);
    await writePrivate(file, `${secret}\n`);
    await giveTo(dataDir, [file]);
  }
}

/** Steps that the start of a server does too: later migrations and the passwords of the roles. */
async function finish(
  { log, manifest }: RestoreChoice,
  ownerUrl: string,
  { database: urls }: Awaited<ReturnType<typeof resolveDatabaseAndSecrets>>,
): Promise<void> {
  const owner = openSession(ownerUrl, 'muster-restore');
  try {
    await analyze(owner);
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

/**
 * Restores the files of a backup into the data folder. Existing files are kept: releases and objects of the store are
 * named by their content, so an interrupted restore continues.
 */
async function restoreFiles(file: string, manifest: Manifest, dataDir: string): Promise<void> {
  if (manifest.releases.files === 0 && manifest.store.files === 0) return;
  const sums = new Map(manifest.parts.map(({ name, sha256 }) => [name, sha256]));
  for await (const entry of readArchive(file)) {
    const [, release] = RELEASE_ENTRY.exec(entry.name) ?? [];
    const [, object] = STORE_ENTRY.exec(entry.name) ?? [];
    if (release !== undefined) {
      await place(entry, path.join(releasesFolder(dataDir), release), dataDir, sums.get(entry.name));
    }
    if (object !== undefined) {
      await place(entry, path.join(storeFolder(dataDir), object), dataDir, undefined);
    }
  }
}

async function place(
  entry: ReadEntry,
  target: string,
  dataDir: string,
  sha256: string | undefined,
): Promise<void> {
  const found = await stat(target).catch(() => undefined);
  if (found?.isFile() === true && found.size === entry.size) return;
  const firstMade = await mkdir(path.dirname(target), { recursive: true, mode: 0o700 });
  await writeWhole(target, { replace: true }, async (handle) => {
    await write(handle, entry);
    if (sha256 !== undefined && entry.sha256() !== sha256) {
      throw new ArchiveError(`${entry.name} is not what was verified: the file was changed meanwhile.`);
    }
  });
  await giveTo(dataDir, [...foldersBetween(firstMade, path.dirname(target)), target]);
}

async function write(handle: FileHandle, entry: ReadEntry): Promise<void> {
  for await (const piece of entry.body) await handle.appendFile(piece);
}

/** From the outermost created folder down to the innermost. */
function foldersBetween(first: string | undefined, last: string): string[] {
  if (first === undefined) return [];
  return last === first ? [last] : [...foldersBetween(first, path.dirname(last)), last];
}

/** A restore by root gives the files to the owner of the data folder, as whom the server runs. */
async function giveTo(dataDir: string, files: readonly string[]): Promise<void> {
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = await stat(dataDir);
  for (const file of files) await chown(file, uid, gid);
}
