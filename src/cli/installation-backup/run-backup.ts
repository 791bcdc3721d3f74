import { setVariables } from '../../config.ts';
import { startFailureText } from '../../start-failure.ts';
import { type CommandIo, fileOf } from '../io.ts';
import { withAccess, type InstallationAccess, recordAsOperator } from '../with-installation.ts';
import {
  type Manifest,
  ABOUT_NAME,
  CODE_NAME,
  databaseEntry,
  FORMAT,
  FORMAT_VERSION,
  KEYS_NAME,
  MANIFEST_NAME,
  type Part,
  type Table,
  PassphraseError,
  codeOf,
  keysOf,
  sealKeys,
  passphraseOf,
  type PassphraseOptions,
} from './manifest.ts';
import { verifyBackup } from './verify-backup.ts';
import { clock } from '../../clock.ts';
import { constants, gzip } from 'node:zlib';
import { promisify } from 'node:util';
import { VERSION } from '../../api-info.ts';
import { sessionUrlOf } from '../../platform/db/database.ts';
import { type DatabaseSnapshot, withSnapshot } from '../../platform/db/dump.ts';
import { appliedMigrations } from '../../platform/db/migrations.ts';
import { openSession } from '../../platform/db/pool.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import { newId } from '../../platform/ids.ts';
import { keyIdOf } from '../../platform/secrets/sealed.ts';
import { writeWhole } from '../whole-file.ts';
import { ArchiveError, ArchiveWriter } from './archive.ts';
import { addReleases, addStore } from './installation-files.ts';

interface BackupChoice {
  file: string;
  /** Absent: the backup holds no keys. */
  passphrase: string | undefined;
  withStore: boolean;
  /** The variables of the installation that are set; they are part of its keys. */
  environment: Record<string, string>;
}

interface BackupResult {
  file: string;
  bytes: number;
  manifest: Manifest;
}

/** Writes a backup of the installation while its servers keep running. */
export async function writeBackup(access: InstallationAccess, choice: BackupChoice): Promise<BackupResult> {
  const id = newId();
  return writeWhole(choice.file, {}, async (handle) => {
    const archive = new ArchiveWriter(handle);
    const manifest = await writeParts(archive, access, { ...choice, id });
    await recordBackup(access, manifest);
    return { file: choice.file, bytes: archive.bytes, manifest };
  });
}

async function writeParts(
  archive: ArchiveWriter,
  access: InstallationAccess,
  { id, passphrase, withStore, environment }: BackupChoice & { id: string },
): Promise<Manifest> {
  const { config, database, secretKeys } = access;
  const parts: Part[] = [];
  const add = async (name: string, content: unknown) =>
    void parts.push(await archive.add(name, Buffer.from(`${JSON.stringify(content)}\n`)));
  await add(ABOUT_NAME, { format: FORMAT, version: FORMAT_VERSION, id });
  const keys = passphrase === undefined ? undefined : await keysOf(passphrase);
  if (keys !== undefined) {
    const held = {
      jwtSecret: access.jwtSecret,
      encryptionKey: secretKeys.current,
      oldEncryptionKeys: [...secretKeys.old],
      environment,
    };
    await add(KEYS_NAME, sealKeys(held, keys, id));
  }
  const { tables, schema, postgres, createdAt } = await withSnapshot(
    sessionUrlOf(database),
    async (snapshot, tx) => ({
      postgres: snapshot.postgres,
      createdAt: clock.date().toISOString(),
      schema: await appliedMigrations(tx),
      tables: await addTables(archive, snapshot, parts),
    }),
  );
  // After the database, so that every file that it names is there; no row names one that came later.
  const releases = await addReleases(archive, config, parts);
  const store = await addStore(archive, config, withStore);
  const manifest: Manifest = {
    format: FORMAT,
    version: FORMAT_VERSION,
    id,
    createdAt,
    release: VERSION,
    postgres,
    keys: { included: keys !== undefined, encryptionKeyId: keyIdOf(secretKeys.current) },
    schema,
    tables,
    releases,
    store,
    parts,
  };
  const text = Buffer.from(`${JSON.stringify(manifest)}\n`);
  await archive.add(MANIFEST_NAME, text);
  if (keys !== undefined) await archive.add(CODE_NAME, Buffer.from(codeOf(text, keys)));
  await archive.end();
  return manifest;
}

const compress = promisify(gzip);

async function addTables(
  archive: ArchiveWriter,
  snapshot: DatabaseSnapshot,
  parts: Part[],
): Promise<Table[]> {
  const tables: Table[] = [];
  for (const { name, columns } of snapshot.tables) {
    const table: Table = { name, columns, rows: 0 };
    let number = 0;
    await snapshot.rows(table, async (piece, rows) => {
      table.rows += rows;
      const packed = await compress(piece, { level: constants.Z_BEST_SPEED + 2 });
      parts.push(await archive.add(databaseEntry(name, ++number), packed));
    });
    tables.push(table);
  }
  return tables;
}

/** A backup contains all data of the installation, so it is recorded in the audit trail. */
async function recordBackup({ database, log }: InstallationAccess, manifest: Manifest): Promise<void> {
  const db = openSession(sessionUrlOf(database), 'muster-backup');
  try {
    await withSystem(db, 'record a backup of the installation', (tx) =>
      recordAsOperator(tx, log, {
        action: 'installation.backup',
        resourceType: 'installation',
        resourceId: manifest.id,
        details: { keys: manifest.keys.included, store: manifest.store.included },
      }),
    );
  } finally {
    await db.destroy();
  }
}

export interface BackupOptions extends PassphraseOptions {
  withoutKeys?: true;
  withStore?: true;
  verify?: string;
  json?: true;
}

export async function runBackup(
  io: CommandIo,
  file: string | undefined,
  options: BackupOptions,
): Promise<number> {
  if (options.verify !== undefined) {
    if (file !== undefined) throw new Error('Name a file to write or one to verify, not both.');
    return verify(io, options.verify, options);
  }
  if (file === undefined) throw new Error('Name the file to write, or one to verify with --verify.');
  const passphrase = await chosenPassphrase(io, options);
  const { bytes, manifest } = await withAccess(io, (access) =>
    writeBackup(access, {
      file: fileOf(io, file),
      passphrase,
      withStore: options.withStore === true,
      environment: setVariables({ environment: io.env, folder: io.cwd }),
    }),
  ).catch((error: unknown) => {
    throw new Error(`No backup was written. ${failureText(error)}`);
  });
  const summary = summaryOf(manifest);
  if (options.json === true) {
    io.stdout.write(`${JSON.stringify({ ok: true, file, bytes, ...summary })}\n`);
    return 0;
  }
  const lines = [
    `The backup ${manifest.id} is in ${file}: ${describe(manifest)}, ${bytes} bytes.`,
    ...notes(manifest),
  ];
  io.stdout.write(`${lines.join('\n')}\n`);
  return 0;
}

async function chosenPassphrase(io: CommandIo, options: BackupOptions): Promise<string | undefined> {
  if (options.withoutKeys === true) {
    if (options.passphraseFile === undefined && options.passphraseStdin !== true) return undefined;
    throw new Error('A backup without keys has no passphrase.');
  }
  const passphrase = await passphraseOf(io, options, { repeat: true });
  if (passphrase !== undefined) return passphrase;
  throw new Error(
    'Give a passphrase for the keys, with --passphrase-file or --passphrase-stdin. --without-keys leaves the keys out, without which the secrets in a backup are lost.',
  );
}

async function verify(io: CommandIo, file: string, options: BackupOptions): Promise<number> {
  const isGiven = options.passphraseFile !== undefined || options.passphraseStdin === true;
  const passphrase = isGiven ? await passphraseOf(io, options, { repeat: false }) : undefined;
  try {
    const { manifest, keys } = await verifyBackup(fileOf(io, file), passphrase);
    const keysState = keys !== undefined ? 'open' : manifest.keys.included ? 'not checked' : 'not included';
    if (options.json === true) {
      io.stdout.write(`${JSON.stringify({ ok: true, file, ...summaryOf(manifest), keysState })}\n`);
      return 0;
    }
    const lines = [
      `OK  The backup ${manifest.id} of ${manifest.createdAt} is complete: ${describe(manifest)}.`,
      keys !== undefined
        ? 'The passphrase opens its keys, and nothing of it was changed.'
        : 'Damage would have been found. Deliberate changes are found with the passphrase.',
      ...notes(manifest),
    ];
    io.stdout.write(`${lines.join('\n')}\n`);
    return 0;
  } catch (error) {
    if (!(error instanceof ArchiveError || error instanceof PassphraseError)) throw error;
    io.stdout.write(
      options.json === true
        ? `${JSON.stringify({ ok: false, file, fault: error.message })}\n`
        : `NOT INTACT  ${error.message}\n`,
    );
    return 1;
  }
}

/** The parts of the manifest that scripts need. */
export const summaryOf = ({ id, createdAt, release, keys, schema, tables, releases, store }: Manifest) => ({
  id,
  createdAt,
  release,
  keys: keys.included,
  schema: schema.at(-1)?.name ?? null,
  tables: tables.length,
  rows: tables.reduce((sum, { rows }) => sum + rows, 0),
  releases,
  store: { place: store.place, included: store.included, files: store.files, bytes: store.bytes },
});

export function describe(manifest: Manifest): string {
  const { tables, rows, releases, store } = summaryOf(manifest);
  const parts = [`${rows} rows in ${tables} tables`, `${releases.files} files of releases`];
  if (store.included) parts.push(`${store.files} files of the backup store`);
  return parts.join(', ');
}

/** Data that is not in the backup and must be saved separately. */
export function notes({ keys, releases, store }: Manifest): string[] {
  const lines: string[] = [];
  if (!keys.included) {
    lines.push(
      'WARNING: it holds no keys. Without SECRET_ENCRYPTION_KEY the secrets in it are lost: keep that key elsewhere.',
    );
  }
  if (store.place === 'bucket') {
    lines.push('The backups of devices are in the bucket of the backup store, and not in it.');
  } else if (!store.included) {
    lines.push(
      'The backups of devices are not in it: copy the folder backups of DATA_DIR after it, or add --with-store.',
    );
  }
  if (releases.place === 'bucket') lines.push('Files of releases in their bucket are not in it.');
  return lines;
}

/** The failure, as one sentence for the operator. */
export function failureText(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (code === 'ENOSPC' || code === 'EDQUOT') return 'The disk is full.';
  if (code === '53100') return 'The disk of the database is full.';
  // These messages are complete sentences, so the stack is left out.
  if (error instanceof ArchiveError || error instanceof PassphraseError) return error.message;
  if (error instanceof Error && typeof code === 'string' && /^E[A-Z]+$/.test(code) && 'path' in error) {
    return `${error.message}.`;
  }
  return startFailureText(error);
}
