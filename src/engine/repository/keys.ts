import { scrypt, randomBytes, createHash } from 'node:crypto';
import { z } from 'zod';
import { EngineError } from '../engine-error.ts';
import { decryptObject, type ObjectKey, type ObjectSource, encryptObject } from './object-encoding.ts';
import { clock } from '../../clock.ts';

/** Anyone with write access to the repository can add a key file, so its values are limited before they are used. */

const KEY_FILE_MAX = 64 * 1024;
/** The most key files that are tried without a hint. */
const KEYS_MAX = 20;
/** restic itself uses 32 MiB, or less on a busy machine. The memory is N × r × 128 bytes. */
const MEMORY_MAX = 128 * 1024 * 1024;
/**
 * restic uses as much as its own machine computes in half a second: `p` is about 6, 12 and more on a fast processor,
 * and tens with a small N if the machine was busy during the measurement. This limit takes two or three seconds.
 */
const WORK_MAX = 2 ** 23;
/** Limit over all keys that are tried. */
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

/** The repository's master key. Throws WRONG_KEY if the password opens none of its keys. */
export async function openMasterKey(source: ObjectSource, query: KeyQuery): Promise<ObjectKey> {
  for await (const { master } of openedKeys(source, query)) return master;
  throw new EngineError('WRONG_KEY');
}

const Config = z.object({ chunker_polynomial: z.string().regex(/^[0-9a-f]{1,16}$/) });

/**
 * The key that opens a repository, and the chunking parameters from its configuration. Throws WRONG_KEY if the
 * password opens none of its keys.
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

function deriveKey(password: string, { N, r, p, salt }: Derivation): Promise<ObjectKey> {
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

/** Version 2 of the repository format, which supports compression. Every supported restic can read it. */
const VERSION = 2;

interface Wanted {
  password: string;
  label: KeyLabel;
  /** Polynomial of a repository with the same chunking, so that a copy from it stores nothing twice. */
  polynomial?: string | undefined;
}

/**
 * The two objects of a new repository, as `restic init` writes them: the key first, then the configuration. restic
 * itself would need eight runs of half a second or more until the only key has our label.
 */
export async function newRepository({
  password,
  label,
  polynomial = randomPolynomial(),
}: Wanted): Promise<{ key: NewKeyFile; config: Uint8Array }> {
  const master = { encrypt: randomBytes(32), macK: randomBytes(16), macR: randomBytes(16) };
  const config = { version: VERSION, id: randomBytes(32).toString('hex'), chunker_polynomial: polynomial };
  return {
    key: await newKeyFile(master, { password, label }),
    config: encryptObject(master, Buffer.from(JSON.stringify(config))),
  };
}

/** The two names that a key contains in plain text, by which its version is recognized. */
interface KeyLabel {
  user: string;
  host: string;
}

interface NewKeyFile {
  /** Its name in the repository: the SHA-256 of its content. */
  id: string;
  content: Uint8Array;
}

/**
 * The cost of opening the repository: some 60 ms and 32 MiB. restic itself uses half a second of its machine each
 * time, to slow down guessing of human passwords. Our passwords have 256 random bits, which cannot be guessed at any
 * cost (docs/decisions/backup-engine.md).
 */
const COST = { N: 2 ** 15, r: 8, p: 1 };
/** restic accepts no other length. */
const SALT_BYTES = 64;

/** A key of a repository, by which `password` opens it. */
export async function newKeyFile(
  master: ObjectKey,
  { password, label }: { password: string; label: KeyLabel },
): Promise<NewKeyFile> {
  const salt = randomBytes(SALT_BYTES);
  const opening = await deriveKey(password, { ...COST, salt });
  const content = {
    mac: { k: base64(master.macK), r: base64(master.macR) },
    encrypt: base64(master.encrypt),
  };
  const file = json({
    created: clock.date().toISOString(),
    username: label.user,
    hostname: label.host,
    kdf: 'scrypt',
    ...COST,
    salt: base64(salt),
    data: base64(encryptObject(opening, json(content))),
  });
  return { id: createHash('sha256').update(file).digest('hex'), content: file };
}

const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64');
const json = (value: object) => Buffer.from(JSON.stringify(value));

/**
 * restic cuts files at certain values of a rolling hash, which is a remainder by a polynomial of the repository. A
 * separate polynomial per repository keeps others from recognizing files by the sizes of their chunks. It is a number
 * whose bits are the coefficients, of this degree, and irreducible: restic refuses any other.
 */
const DEGREE = 53;
const HIGHEST = 1n << BigInt(DEGREE);
const LOWEST = 1n;
/** The polynomial `x`. */
const X = 2n;

/** As stored in the configuration of a repository: in hexadecimal digits. */
export function randomPolynomial(): string {
  for (;;) {
    const random = randomBytes(8).readBigUInt64BE() & (HIGHEST - 1n);
    const candidate = random | HIGHEST | LOWEST;
    if (isIrreducible(candidate)) return candidate.toString(16);
  }
}

/**
 * Rabin's test. The degree is a prime number, so a polynomial without a root divides `x^(2^53) - x` if and only if it is
 * irreducible.
 */
function isIrreducible(polynomial: bigint): boolean {
  // 0 is no root because of the lowest bit, and 1 is none if the number of terms is odd.
  if (countOfBits(polynomial) % 2 === 0) return false;
  let power = X;
  for (let i = 0; i < DEGREE; i++) power = square(power, polynomial);
  return power === X;
}

const countOfBits = (value: bigint): number => value.toString(2).replaceAll('0', '').length;

/** The square of `value`, which is smaller than `modulus`, modulo `modulus`. */
function square(value: bigint, modulus: bigint): bigint {
  let sum = 0n;
  let shifted = value;
  for (let rest = value; rest > 0n; rest >>= 1n) {
    if ((rest & 1n) === 1n) sum ^= shifted;
    shifted <<= 1n;
    if ((shifted & HIGHEST) !== 0n) shifted ^= modulus;
  }
  return sum;
}
