import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

/** Parts of contents as they lie in a pack: initialization vector, ciphertext, tag (AES-256-GCM). */

const IV_BYTES = 12;
const TAG_BYTES = 16;
/** What a part takes more in a pack than in the clear. */
export const SEAL_BYTES = IV_BYTES + TAG_BYTES;

/** Each pack has a key of its own, which follows from the key of the organization. */
export const packKey = (material: Buffer, packId: string): Buffer =>
  Buffer.from(hkdfSync('sha256', material, packId, 'muster cloud backup pack', 32));

/** The seal covers which content it is, so that parts of a pack cannot be exchanged. */
export function sealPart(key: Buffer, sha256: Buffer, content: Buffer): Buffer {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key, iv, { authTagLength: TAG_BYTES });
  cipher.setAAD(sha256);
  return Buffer.concat([iv, cipher.update(content), cipher.final(), cipher.getAuthTag()]);
}

/** Throws where a bit of it has changed. */
export function openPart(key: Buffer, sha256: Buffer, sealed: Buffer): Buffer {
  const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, IV_BYTES), {
    authTagLength: TAG_BYTES,
  });
  decipher.setAAD(sha256);
  decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
  return Buffer.concat([decipher.update(sealed.subarray(IV_BYTES, -TAG_BYTES)), decipher.final()]);
}
