import { setVariables } from '../../config.ts';
import { startFailureText } from '../../start-failure.ts';
import { type CommandIo, fileOf } from '../io.ts';
import { withAccess } from '../with-installation.ts';
import type { Manifest } from './archive/manifest.ts';
import { PassphraseError } from './archive/sealed-keys.ts';
import { ArchiveError } from './archive/tar-header.ts';
import { passphraseOf, type PassphraseOptions } from './passphrase.ts';
import { verifyBackup } from './verify-backup.ts';
import { writeBackup } from './write-backup.ts';

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

/** Of the manifest, what a script asks for. */
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

/** What is not in a backup and has to be saved by other means. */
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

/** What went wrong, as one sentence for the operator. */
export function failureText(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (code === 'ENOSPC' || code === 'EDQUOT') return 'The disk is full.';
  if (code === '53100') return 'The disk of the database is full.';
  // These are sentences already, whose stack helps nobody.
  if (error instanceof ArchiveError || error instanceof PassphraseError) return error.message;
  if (error instanceof Error && typeof code === 'string' && /^E[A-Z]+$/.test(code) && 'path' in error) {
    return `${error.message}.`;
  }
  return startFailureText(error);
}
