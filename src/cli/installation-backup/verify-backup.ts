import { createHash } from 'node:crypto';
import { createGunzip } from 'node:zlib';
import type { z } from 'zod';
import {
  ABOUT_NAME,
  About,
  CODE_NAME,
  DATABASE_ENTRY,
  FORMAT_VERSION,
  KEYS_NAME,
  Manifest,
  MANIFEST_MAX,
  MANIFEST_NAME,
  type Part,
  RELEASE_ENTRY,
  SMALL_MAX,
  STORE_ENTRY,
  isCodeOf,
  type Keys,
  keysOf,
  openKeys,
  PassphraseError,
  SealedKeys,
} from './manifest.ts';
import { ArchiveError, bytesOf, readArchive, type ReadEntry } from './archive.ts';

export interface VerifiedBackup {
  manifest: Manifest;
  /** Set if the backup has keys and the passphrase was given. */
  keys: Keys | undefined;
}

/** The content of an archive, before it is compared with its manifest. */
interface Found {
  parts: Part[];
  rows: Map<string, number>;
  sealed: SealedKeys | undefined;
  manifest: Buffer | undefined;
  code: string | undefined;
  store: { files: number; bytes: number; sha256: string };
}

/**
 * Reads a backup whole and compares it with its manifest. Without the passphrase this finds damage; with it, it also
 * finds what was changed on purpose. Throws `ArchiveError` or `PassphraseError`.
 */
export async function verifyBackup(file: string, passphrase: string | undefined): Promise<VerifiedBackup> {
  const found = await readParts(file);
  if (found.manifest === undefined) throw new ArchiveError('The file is cut off: it has no manifest.');
  const manifest = parsed(Manifest, MANIFEST_NAME, found.manifest);
  compareParts(manifest, found);
  return { manifest, keys: await openedKeys(manifest, found, passphrase) };
}

async function readParts(file: string): Promise<Found> {
  const found: Found = {
    parts: [],
    rows: new Map(),
    sealed: undefined,
    manifest: undefined,
    code: undefined,
    store: { files: 0, bytes: 0, sha256: '' },
  };
  const lines = createHash('sha256');
  let isFirst = true;
  for await (const entry of readArchive(file)) {
    const { name, size } = entry;
    if (isFirst !== (name === ABOUT_NAME)) throw new ArchiveError('The file is not a backup of Muster.');
    if (found.code !== undefined || (found.manifest !== undefined && name !== CODE_NAME)) {
      throw new ArchiveError(`The file has ${name} after its manifest: it was changed.`);
    }
    isFirst = false;
    if (name === MANIFEST_NAME) {
      found.manifest = await bytesOf(entry, MANIFEST_MAX);
    } else if (name === CODE_NAME) {
      found.code = (await bytesOf(entry, SMALL_MAX)).toString('utf8');
    } else if (STORE_ENTRY.test(name)) {
      for await (const _piece of entry.body);
      lines.update(`${entry.sha256()} ${name}\n`);
      found.store.files++;
      found.store.bytes += size;
    } else {
      await readPart(entry, found);
      found.parts.push({ name, size, sha256: entry.sha256() });
    }
  }
  found.store.sha256 = lines.digest('hex');
  return found;
}

async function readPart(entry: ReadEntry, found: Found): Promise<void> {
  const { name } = entry;
  const [, table] = DATABASE_ENTRY.exec(name) ?? [];
  if (name === ABOUT_NAME) {
    const { version } = parsed(About, name, await bytesOf(entry, SMALL_MAX));
    if (version > FORMAT_VERSION) {
      throw new ArchiveError('The backup was written by a newer release of Muster, which has to read it.');
    }
  } else if (name === KEYS_NAME) {
    found.sealed = parsed(SealedKeys, name, await bytesOf(entry, SMALL_MAX));
  } else if (table !== undefined) {
    found.rows.set(table, (found.rows.get(table) ?? 0) + (await countRows(entry)));
  } else if (RELEASE_ENTRY.test(name)) {
    for await (const _piece of entry.body);
  } else {
    throw new ArchiveError(`The file is not a backup of Muster: it has an entry ${JSON.stringify(name)}.`);
  }
}

const LINE_END = 0x0a;

async function countRows(entry: ReadEntry): Promise<number> {
  const unpacked = createGunzip();
  const fed = feed(entry, unpacked);
  // Rejects only if the reading below has failed for the same reason.
  fed.catch(() => {});
  let rows = 0;
  try {
    for await (const piece of unpacked as AsyncIterable<Buffer>) {
      for (let at = piece.indexOf(LINE_END); at !== -1; at = piece.indexOf(LINE_END, at + 1)) rows++;
    }
  } catch (error) {
    if (error instanceof ArchiveError) throw error;
    throw new ArchiveError(`${entry.name} is damaged.`, { cause: error });
  }
  await fed;
  return rows;
}

async function feed(entry: ReadEntry, unpacked: ReturnType<typeof createGunzip>): Promise<void> {
  try {
    for await (const piece of entry.body) {
      if (!unpacked.write(piece)) await new Promise((resolve) => unpacked.once('drain', resolve));
    }
    unpacked.end();
  } catch (error) {
    unpacked.destroy(error instanceof Error ? error : new Error(String(error)));
    throw error;
  }
}

function compareParts(manifest: Manifest, found: Found): void {
  for (const [at, part] of manifest.parts.entries()) {
    const there = found.parts[at];
    if (there === undefined || there.name !== part.name) {
      throw new ArchiveError(`The backup lacks ${part.name}, which its manifest names.`);
    }
    if (there.sha256 !== part.sha256 || there.size !== part.size) {
      throw new ArchiveError(`${part.name} is damaged: its SHA-256 is not the one in the manifest.`);
    }
  }
  const foreign = found.parts[manifest.parts.length];
  if (foreign !== undefined) {
    throw new ArchiveError(`The backup has ${foreign.name}, which its manifest lacks.`);
  }
  for (const { name, rows } of manifest.tables) {
    if ((found.rows.get(name) ?? 0) !== rows) throw new ArchiveError(`The backup lacks rows of ${name}.`);
  }
  const { files, bytes, sha256 } = manifest.store;
  const { store } = found;
  if (store.files !== files || store.bytes !== bytes || store.sha256 !== sha256) {
    throw new ArchiveError('The files of the backup store are not those that the manifest states.');
  }
}

async function openedKeys(
  manifest: Manifest,
  { sealed, manifest: text = Buffer.alloc(0), code }: Found,
  passphrase: string | undefined,
): Promise<Keys | undefined> {
  if (manifest.keys.included !== (sealed !== undefined)) {
    throw new ArchiveError('The keys of the backup are not what its manifest states.');
  }
  if (passphrase === undefined) return undefined;
  if (sealed === undefined) {
    throw new PassphraseError(
      'The backup was written without keys, so there is nothing for a passphrase to open.',
    );
  }
  const derived = await keysOf(passphrase, sealed.kdf);
  const keys = openKeys(sealed, derived, manifest.id);
  if (code === undefined || !isCodeOf(text, code, derived)) {
    throw new ArchiveError('The manifest was changed after the backup was written: do not use this file.');
  }
  return keys;
}

function parsed<T>(schema: z.ZodType<T>, name: string, text: Buffer): T {
  let value: unknown;
  try {
    value = JSON.parse(text.toString('utf8'));
  } catch {
    throw new ArchiveError(`${name} is damaged: it is no JSON.`);
  }
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw new ArchiveError(`${name} is damaged: ${issue?.path.join('.')} ${issue?.message}.`);
}
