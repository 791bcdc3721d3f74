import { scrypt } from 'node:crypto';
import { z } from 'zod';
import { EngineError } from '../engine-error.ts';
import { decryptObject, type ObjectKey } from './decrypt.ts';
import type { ObjectSource } from './object-source.ts';

/** Anyone who can write to the repository can write a key file, so nothing in it is trusted before it is bounded. */

const KEY_FILE_MAX = 64 * 1024;
/** Key files that are tried at most, without a hint. */
const KEYS_MAX = 20;
/** restic itself uses 32 MiB, or less where the machine was busy. The memory is N × r × 128 bytes. */
const MEMORY_MAX = 128 * 1024 * 1024;
/**
 * restic takes what its own machine computes in half a second: `p` is 6 or so, 12 and more on a fast processor, and
 * tens with a small N where the machine was busy when it began to measure. This much takes two or three seconds.
 */
const WORK_MAX = 2 ** 23;
/** Of all the keys that are tried. */
const WORK_IN_ALL_MAX = 5 * WORK_MAX;

const Base64 = z
  .base64()
  .max(20_000)
  .transform((text) => Buffer.from(text, 'base64'));
const KeyFile = z
  .object({
    kdf: z.literal('scrypt'),
    N: z
      .number()
      .int()
      .min(2)
      .max(2 ** 20),
    r: z.number().int().min(1).max(64),
    p: z.number().int().min(1).max(1024),
    salt: Base64.refine((salt) => salt.length >= 8 && salt.length <= 1024),
    data: Base64,
  })
  .refine(({ N }) => (N & (N - 1)) === 0, 'N must be a power of two')
  .refine(
    ({ N, r, p }) => N * r * 128 <= MEMORY_MAX && N * r * p <= WORK_MAX,
    'needs too much memory or time',
  );

const Key = (length: number) => Base64.refine((bytes) => bytes.length === length);
const MasterKey = z.object({
  mac: z.object({ k: Key(16), r: Key(16) }),
  encrypt: Key(32),
});

export interface KeyQuery {
  password: string;
  /** The id of the key, or its beginning. Only this key is tried. */
  keyHint?: string | undefined;
}

/** The repository's master key. Throws WRONG_KEY where the password opens none of its keys. */
export async function openMasterKey(source: ObjectSource, query: KeyQuery): Promise<ObjectKey> {
  for await (const { master } of openedKeys(source, query)) return master;
  throw new EngineError('WRONG_KEY');
}

const Config = z.object({ chunker_polynomial: z.string().regex(/^[0-9a-f]{1,16}$/) });

/**
 * Which key opens a repository, and how its chunks are cut, by the configuration of the repository. Throws WRONG_KEY where
 * the password opens none of its keys.
 */
export async function openConfig(
  source: ObjectSource,
  config: Uint8Array,
  query: KeyQuery,
): Promise<{ keyId: string; master: ObjectKey; polynomial: string }> {
  for await (const { id, master } of openedKeys(source, query)) {
    const content = decryptObject(master, config);
    const parsed = content === undefined ? undefined : parseJson(Config, content);
    if (parsed !== undefined) return { keyId: id, master, polynomial: parsed.chunker_polynomial };
  }
  throw new EngineError('WRONG_KEY');
}

/** The keys that the password opens. */
async function* openedKeys(
  source: ObjectSource,
  { password, keyHint = '' }: KeyQuery,
): AsyncGenerator<{ id: string; master: ObjectKey }, void> {
  let tried = 0;
  let work = 0;
  for await (const { name, size } of source.list('key')) {
    if (!name.startsWith(keyHint) || size > KEY_FILE_MAX) continue;
    const file = parseJson(KeyFile, await source.get('key', name));
    if (file === undefined) continue;
    tried += 1;
    work += file.N * file.r * file.p;
    if (tried > KEYS_MAX || work > WORK_IN_ALL_MAX) return;
    const content = decryptObject(await deriveKey(password, file), file.data);
    const found = content === undefined ? undefined : parseJson(MasterKey, content);
    if (found === undefined) continue;
    const { encrypt, mac } = found;
    yield { id: name, master: { encrypt, macK: mac.k, macR: mac.r } };
  }
}

type Derivation = Pick<z.output<typeof KeyFile>, 'N' | 'r' | 'p' | 'salt'>;

export function deriveKey(password: string, { N, r, p, salt }: Derivation): Promise<ObjectKey> {
  return new Promise((resolve, reject) => {
    scrypt(password, salt, 64, { N, r, p, maxmem: 2 * MEMORY_MAX }, (error, derived) => {
      if (error !== null) reject(error);
      else {
        resolve({
          encrypt: derived.subarray(0, 32),
          macK: derived.subarray(32, 48),
          macR: derived.subarray(48, 64),
        });
      }
    });
  });
}

function parseJson<S extends z.ZodType>(schema: S, bytes: Uint8Array): z.output<S> | undefined {
  try {
    return schema.safeParse(JSON.parse(Buffer.from(bytes).toString('utf8'))).data;
  } catch {
    return undefined;
  }
}
