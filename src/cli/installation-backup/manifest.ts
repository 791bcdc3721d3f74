import { z } from 'zod';
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  randomBytes,
  scrypt,
  type ScryptOptions,
  timingSafeEqual,
} from 'node:crypto';
import { promisify } from 'node:util';
import { type CommandIo, askSecret, secretFrom } from '../io.ts';

/** The optional parts of a backup: without the keys, the secrets in the database are lost. */
export const Keys = z.object({
  jwtSecret: z.string().min(1),
  encryptionKey: z.string().min(1),
  oldEncryptionKeys: z.array(z.string().min(1)),
  /** The variables that were set, for `muster restore --environment-to`. */
  environment: z.record(z.string(), z.string()),
});
export type Keys = z.infer<typeof Keys>;

const base64url = z.string().regex(/^[\w-]*$/);

export const SealedKeys = z.object({
  // Bounded, so that a forged file cannot take all memory.
  kdf: z.object({
    name: z.literal('scrypt'),
    n: z.union([z.literal(2 ** 15), z.literal(2 ** 16), z.literal(2 ** 17)]),
    r: z.literal(8),
    p: z.literal(1),
    salt: base64url.length(22),
  }),
  iv: base64url.length(16),
  body: base64url.max(1 << 20),
});
export type SealedKeys = z.infer<typeof SealedKeys>;

/** Each guess costs half a second of one core, and 128 MiB. */
const KDF = { name: 'scrypt', n: 2 ** 17, r: 8, p: 1 } as const;
const MEMORY = 256 << 20;
const TAG_BYTES = 16;
const PASSPHRASE_MIN = 12;

export class PassphraseError extends Error {}

/** The two keys that are derived from a passphrase for one backup. */
interface PassphraseKeys {
  kdf: SealedKeys['kdf'];
  sealing: Buffer;
  code: Buffer;
}

export async function keysOf(passphrase: string, kdf?: SealedKeys['kdf']): Promise<PassphraseKeys> {
  if (passphrase.length < PASSPHRASE_MIN) {
    throw new PassphraseError(`The passphrase must have at least ${PASSPHRASE_MIN} characters.`);
  }
  const used = kdf ?? { ...KDF, salt: randomBytes(16).toString('base64url') };
  const derive = promisify<string, Buffer, number, ScryptOptions, Buffer>(scrypt);
  const bytes = await derive(passphrase.normalize('NFC'), Buffer.from(used.salt, 'base64url'), 64, {
    N: used.n,
    r: used.r,
    p: used.p,
    maxmem: MEMORY,
  });
  return { kdf: used, sealing: bytes.subarray(0, 32), code: bytes.subarray(32) };
}

export function sealKeys(keys: Keys, { kdf, sealing }: PassphraseKeys, backupId: string): SealedKeys {
  const iv = randomBytes(12);
  const cipher = createCipheriv('aes-256-gcm', sealing, iv, { authTagLength: TAG_BYTES });
  cipher.setAAD(Buffer.from(backupId));
  const body = Buffer.concat([cipher.update(JSON.stringify(keys)), cipher.final(), cipher.getAuthTag()]);
  return { kdf, iv: iv.toString('base64url'), body: body.toString('base64url') };
}

export function openKeys({ iv, body }: SealedKeys, { sealing }: PassphraseKeys, backupId: string): Keys {
  const bytes = Buffer.from(body, 'base64url');
  const decipher = createDecipheriv('aes-256-gcm', sealing, Buffer.from(iv, 'base64url'), {
    authTagLength: TAG_BYTES,
  });
  decipher.setAAD(Buffer.from(backupId));
  try {
    decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
    const text = Buffer.concat([decipher.update(bytes.subarray(0, -TAG_BYTES)), decipher.final()]);
    return Keys.parse(JSON.parse(text.toString('utf8')));
  } catch {
    throw new PassphraseError(
      'The passphrase does not open the keys of this backup: it is another one, or the keys were changed.',
    );
  }
}

/** Proves to the owner of the passphrase that the manifest, and therefore every part, is authentic. */
export const codeOf = (manifest: Buffer, { code }: PassphraseKeys) =>
  createHmac('sha256', code).update(manifest).digest('hex');

export function isCodeOf(manifest: Buffer, given: string, keys: PassphraseKeys): boolean {
  const expected = Buffer.from(codeOf(manifest, keys));
  const found = Buffer.from(given);
  return expected.length === found.length && timingSafeEqual(expected, found);
}

/**
 * The manifest of a Muster backup. The archive contains, in this order: `muster-backup.json`, the sealed keys, the
 * database, the files of releases, the backup store if it was requested, this manifest, and its authentication code if
 * there are keys.
 */

export const FORMAT = 'muster-backup';
export const FORMAT_VERSION = 1;

export const ABOUT_NAME = 'muster-backup.json';
export const KEYS_NAME = 'keys.sealed.json';
export const MANIFEST_NAME = 'manifest.json';
export const CODE_NAME = 'manifest.code';

const Sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const Count = z.number().int().nonnegative();
/** Names of tables and columns: they become parts of statements, although quoted. */
const Identifier = z.string().regex(/^[a-z_][a-z0-9_]{0,62}$/);

/** The first entry: identifies the file, and shows whether this program can read it. */
export const About = z.object({
  format: z.literal(FORMAT),
  version: z.number().int().positive(),
  id: z.uuid(),
});

const Part = z.object({ name: z.string().max(400), size: Count, sha256: Sha256 });
export type Part = z.infer<typeof Part>;

const Table = z.object({ name: Identifier, columns: z.array(Identifier), rows: Count });
export type Table = z.infer<typeof Table>;

export const Manifest = z.object({
  format: z.literal(FORMAT),
  version: z.literal(FORMAT_VERSION),
  id: z.uuid(),
  createdAt: z.iso.datetime(),
  /** The release of Muster that wrote it. */
  release: z.string().max(100),
  /** Such as `15.10`; a backup can be restored to any other version that Muster supports. */
  postgres: z.string().max(100),
  keys: z.object({
    included: z.boolean(),
    /** Identifies the key that the database is sealed with, and reveals nothing about it. */
    encryptionKeyId: z.string().regex(/^[0-9a-f]{8}$/),
  }),
  /** The migrations of the database, in their order. */
  schema: z.array(z.object({ name: z.string().regex(/^\d{4}_\w{1,200}\.sql$/), sha256: Sha256 })),
  tables: z.array(Table),
  releases: z.object({ place: z.enum(['folder', 'bucket']), files: Count }),
  store: z.object({
    place: z.enum(['folder', 'bucket']),
    included: z.boolean(),
    files: Count,
    bytes: Count,
    /** Hash of a line `<sha256> <name>` for each of its files in order: there can be millions. */
    sha256: Sha256,
  }),
  /** Every entry before this one, except those of the store. */
  parts: z.array(Part),
});
export type Manifest = z.infer<typeof Manifest>;

/** Entry names by section. A restore writes only files whose names match these patterns. */
export const DATABASE_ENTRY = /^database\/([a-z_][a-z0-9_]{0,62})\/(\d{8})\.gz$/;
export const RELEASE_ENTRY = /^releases\/([0-9a-f]{64})$/;
export const STORE_ENTRY = /^store\/([0-9a-f-]{36}(?:\/[\w-]+){1,5})$/;

export const databaseEntry = (table: string, number: number) =>
  `database/${table}/${String(number).padStart(8, '0')}.gz`;
export const releaseEntry = (sha256: string) => `releases/${sha256}`;
export const storeEntry = (place: string) => `store/${place}`;

/** The manifest of a large installation with many pieces of its database. */
export const MANIFEST_MAX = 256 << 20;
export const SMALL_MAX = 4 << 20;
/** A compressed piece of the database. A single row can be larger than the target size. */
export const PIECE_MAX = 1 << 30;

export interface PassphraseOptions {
  passphraseFile?: string;
  passphraseStdin?: true;
}

/** `undefined` if none was given and there is no terminal to ask on. */
export async function passphraseOf(
  io: CommandIo,
  { passphraseFile: file, passphraseStdin }: PassphraseOptions,
  { repeat }: { repeat: boolean },
): Promise<string | undefined> {
  if (file !== undefined && passphraseStdin === true) {
    throw new Error('Give the passphrase by a file or by the standard input, not by both.');
  }
  if (file !== undefined) return secretFrom(io, { file });
  if (passphraseStdin === true) return secretFrom(io, 'stdin');
  const given = await askSecret(io, 'Passphrase of the backup: ');
  if (!repeat || given === undefined) return given;
  if ((await askSecret(io, 'The same passphrase again: ')) !== given) {
    throw new Error('The two passphrases differ.');
  }
  return given;
}
