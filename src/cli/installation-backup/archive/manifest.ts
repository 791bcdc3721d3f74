import { z } from 'zod';

/**
 * What a backup of Muster holds. The archive has, in this order: `muster-backup.json`, the sealed keys, the database,
 * the files of releases, the backup store where it was asked for, this manifest, and its authentication code where
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
/** Of tables and columns: they become parts of statements, although quoted. */
const Identifier = z.string().regex(/^[a-z_][a-z0-9_]{0,62}$/);

/** The first entry: enough to say what the file is and whether this program reads it. */
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
  /** Such as `15.10`; a backup can be restored to any other that Muster supports. */
  postgres: z.string().max(100),
  keys: z.object({
    included: z.boolean(),
    /** Names the key that the database is sealed with, and gives nothing of it away. */
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
    /** Of a line `<sha256> <name>` for each of its files in their order: there can be millions. */
    sha256: Sha256,
  }),
  /** Every entry before this one, except those of the store. */
  parts: z.array(Part),
});
export type Manifest = z.infer<typeof Manifest>;

/** Entry names by section. Everything that is written below a folder on a restore goes through these patterns. */
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
/** A piece of the database, compressed. One row can be larger than a piece should be. */
export const PIECE_MAX = 1 << 30;
