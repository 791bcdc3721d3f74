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
import { z } from 'zod';

/** What a backup holds beside the database: without the keys, the secrets in the database are lost. */
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

/** Half a second of one core for each guess, and 128 MiB. */
const KDF = { name: 'scrypt', n: 2 ** 17, r: 8, p: 1 } as const;
const MEMORY = 256 << 20;
const TAG_BYTES = 16;
export const PASSPHRASE_MIN = 12;

export class PassphraseError extends Error {}

/** The two keys that a passphrase gives for one backup. */
export interface PassphraseKeys {
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

/** Proves to the owner of the passphrase that the manifest, and so every part, is what was written. */
export const codeOf = (manifest: Buffer, { code }: PassphraseKeys) =>
  createHmac('sha256', code).update(manifest).digest('hex');

export function isCodeOf(manifest: Buffer, given: string, keys: PassphraseKeys): boolean {
  const expected = Buffer.from(codeOf(manifest, keys));
  const found = Buffer.from(given);
  return expected.length === found.length && timingSafeEqual(expected, found);
}
