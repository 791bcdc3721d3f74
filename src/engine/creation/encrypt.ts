import { createCipheriv, randomBytes } from 'node:crypto';
import { IV_LENGTH, macOf, type ObjectKey } from '../reader/decrypt.ts';

/** `IV ‖ cipher text ‖ MAC`, as restic encrypts an object. */
export function encryptObject(key: ObjectKey, plain: Uint8Array): Buffer {
  const iv = randomBytes(IV_LENGTH);
  const sealed = createCipheriv('aes-256-ctr', key.encrypt, iv).update(plain);
  return Buffer.concat([iv, sealed, macOf(key, iv, sealed)]);
}
