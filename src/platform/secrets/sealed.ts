import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

/**
 * Secrets that must be read again (unlike passwords, which are only compared) lie in the database sealed:
 * `v1.<key id>.<iv>.<ciphertext and tag>`, AES-256-GCM. The seal covers where the secret lies, so that it opens in no
 * other row or column.
 */
export interface Encryptor {
  seal(text: string, context: string): string;
  /** Throws `SealBrokenError`. `stale`: sealed with an old key, so it is due to be sealed again. */
  open(sealed: string, context: string): { text: string; stale: boolean };
  isStale(sealed: string): boolean;
}

export interface SecretKeys {
  current: string;
  /** Keys of earlier days: they still open, and seal nothing any more. */
  old: readonly string[];
}

export class SealBrokenError extends Error {
  constructor(context: string, reason: string) {
    super(`The sealed secret ${context} does not open: ${reason}`);
    this.name = 'SealBrokenError';
  }
}

/** Where a secret lies, as the seal covers it. */
export const sealContext = (table: string, column: string, rowId: string) => `${table}.${column}:${rowId}`;

const VERSION = 'v1';
const ALGORITHM = 'aes-256-gcm';
const IV_BYTES = 12;
const TAG_BYTES = 16;

interface Key {
  id: string;
  bytes: Buffer;
}

const AT_REST = 'secrets at rest';

/** Names a key, as every secret that is sealed with it does, and gives nothing of it away. */
export const keyIdOf = (secret: string) => derive(secret, AT_REST).id;

export function createEncryptor(keys: SecretKeys, purpose = AT_REST): Encryptor {
  const current = derive(keys.current, purpose);
  const ring = new Map(
    [...keys.old.map((secret) => derive(secret, purpose)), current].map((key) => [key.id, key]),
  );
  const isStale = (sealed: string) => !sealed.startsWith(`${VERSION}.${current.id}.`);
  return {
    isStale,
    seal(text, context) {
      const iv = randomBytes(IV_BYTES);
      const cipher = createCipheriv(ALGORITHM, current.bytes, iv, { authTagLength: TAG_BYTES });
      cipher.setAAD(covered(current.id, context));
      const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]);
      return [VERSION, current.id, iv.toString('base64url'), body.toString('base64url')].join('.');
    },
    open(sealed, context) {
      const [version, keyId = '', ivText = '', bodyText = '', ...rest] = sealed.split('.');
      const iv = decoded(ivText);
      const body = decoded(bodyText);
      if (version !== VERSION || rest.length > 0 || iv?.length !== IV_BYTES || body === undefined) {
        throw new SealBrokenError(context, 'it has another form');
      }
      if (body.length < TAG_BYTES) throw new SealBrokenError(context, 'its tag is cut short');
      const key = ring.get(keyId);
      if (key === undefined) {
        throw new SealBrokenError(
          context,
          `the key ${keyId} is not among SECRET_ENCRYPTION_KEY and SECRET_ENCRYPTION_KEYS_OLD`,
        );
      }
      const decipher = createDecipheriv(ALGORITHM, key.bytes, iv, { authTagLength: TAG_BYTES });
      decipher.setAAD(covered(keyId, context));
      decipher.setAuthTag(body.subarray(-TAG_BYTES));
      try {
        const text = Buffer.concat([decipher.update(body.subarray(0, -TAG_BYTES)), decipher.final()]);
        return { text: text.toString('utf8'), stale: isStale(sealed) };
      } catch {
        throw new SealBrokenError(context, 'it was changed, moved, or sealed with another key');
      }
    },
  };
}

function derive(secret: string, purpose: string): Key {
  const from = (info: string, length: number) =>
    Buffer.from(hkdfSync('sha256', secret, 'muster', `${purpose}: ${info}`, length));
  return { id: from('key id', 4).toString('hex'), bytes: from('key', 32) };
}

function covered(keyId: string, context: string): Buffer {
  return Buffer.from(`${VERSION}|${keyId}|${context}`);
}

/** Node's decoder passes over what is not base64; then the same bytes would have many spellings. */
function decoded(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64url');
  return bytes.toString('base64url') === text ? bytes : undefined;
}
