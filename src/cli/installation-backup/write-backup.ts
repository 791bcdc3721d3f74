import { clock } from '../../clock.ts';
import { constants, gzip } from 'node:zlib';
import { promisify } from 'node:util';
import { VERSION } from '../../api-info.ts';
import { recordAsOperator } from '../record-as-operator.ts';
import { sessionUrlOf } from '../../platform/db/database.ts';
import { type DatabaseSnapshot, withSnapshot } from '../../platform/db/dump/dump-database.ts';
import { appliedMigrations } from '../../platform/db/migrations/migrations.ts';
import { openSession } from '../../platform/db/pool.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import { newId } from '../../platform/ids.ts';
import { keyIdOf } from '../../platform/secrets/sealed.ts';
import { writeWhole } from '../whole-file.ts';
import type { InstallationAccess } from '../with-installation.ts';
import {
  ABOUT_NAME,
  CODE_NAME,
  databaseEntry,
  FORMAT,
  FORMAT_VERSION,
  KEYS_NAME,
  type Manifest,
  MANIFEST_NAME,
  type Part,
  type Table,
} from './archive/manifest.ts';
import { codeOf, keysOf, sealKeys } from './archive/sealed-keys.ts';
import { TarWriter } from './archive/tar-writer.ts';
import { addReleases, addStore } from './installation-files.ts';

export interface BackupChoice {
  file: string;
  /** Absent: the backup holds no keys. */
  passphrase: string | undefined;
  withStore: boolean;
  /** The variables of the installation that are set, which are among its keys. */
  environment: Record<string, string>;
}

export interface BackupResult {
  file: string;
  bytes: number;
  manifest: Manifest;
}

/** Writes a backup of the installation while its servers go on. */
export async function writeBackup(access: InstallationAccess, choice: BackupChoice): Promise<BackupResult> {
  const id = newId();
  return writeWhole(choice.file, {}, async (handle) => {
    const tar = new TarWriter(handle);
    const manifest = await writeParts(tar, access, { ...choice, id });
    await recordBackup(access, manifest);
    return { file: choice.file, bytes: tar.bytes, manifest };
  });
}

async function writeParts(
  tar: TarWriter,
  access: InstallationAccess,
  { id, passphrase, withStore, environment }: BackupChoice & { id: string },
): Promise<Manifest> {
  const { config, database, secretKeys } = access;
  const parts: Part[] = [];
  const add = async (name: string, content: unknown) =>
    void parts.push(await tar.add(name, Buffer.from(`${JSON.stringify(content)}\n`)));
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
      tables: await addTables(tar, snapshot, parts),
    }),
  );
  // After the database, so that every file that it names is there; one that came later is known to nobody.
  const releases = await addReleases(tar, config, parts);
  const store = await addStore(tar, config, withStore);
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
  await tar.add(MANIFEST_NAME, text);
  if (keys !== undefined) await tar.add(CODE_NAME, Buffer.from(codeOf(text, keys)));
  await tar.end();
  return manifest;
}

const compress = promisify(gzip);

async function addTables(tar: TarWriter, snapshot: DatabaseSnapshot, parts: Part[]): Promise<Table[]> {
  const tables: Table[] = [];
  for (const { name, columns } of snapshot.tables) {
    const table: Table = { name, columns, rows: 0 };
    let number = 0;
    await snapshot.rows(table, async (piece, rows) => {
      table.rows += rows;
      const packed = await compress(piece, { level: constants.Z_BEST_SPEED + 2 });
      parts.push(await tar.add(databaseEntry(name, ++number), packed));
    });
    tables.push(table);
  }
  return tables;
}

/** A backup is everything that the installation knows, so the audit trail says that there is one. */
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
