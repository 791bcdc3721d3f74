import { poly1305 } from '@noble/ciphers/_poly1305.js';
import { createCipheriv, createDecipheriv, timingSafeEqual } from 'node:crypto';

/** restic's encryption of objects: AES-256 in counter mode, and Poly1305-AES over the result. */

export interface ObjectKey {
  encrypt: Uint8Array;
  /** The two halves of the key of Poly1305-AES. */
  macK: Uint8Array;
  macR: Uint8Array;
}

export const IV_LENGTH = 16;
export const MAC_LENGTH = 16;
export const OVERHEAD = IV_LENGTH + MAC_LENGTH;

/** The plain text of `IV ‖ cipher text ‖ MAC`. `undefined` where the key is another one or a byte was changed. */
export function decryptObject(key: ObjectKey, object: Uint8Array): Uint8Array | undefined {
  if (object.byteLength < OVERHEAD) return undefined;
  const { iv, sealed } = partsOf(object);
  const mac = object.subarray(object.byteLength - MAC_LENGTH);
  return timingSafeEqual(macOf(key, iv, sealed), mac) ? decryptUnproved(key, object) : undefined;
}

/** Without a look at the MAC, which takes ten times as long: for what is compared with the hash of its content. */
export function decryptUnproved(key: ObjectKey, object: Uint8Array): Uint8Array {
  const { iv, sealed } = partsOf(object);
  return createDecipheriv('aes-256-ctr', key.encrypt, iv).update(sealed);
}

const partsOf = (object: Uint8Array) => ({
  iv: object.subarray(0, IV_LENGTH),
  sealed: object.subarray(IV_LENGTH, object.byteLength - MAC_LENGTH),
});

export function macOf(key: ObjectKey, iv: Uint8Array, sealed: Uint8Array): Uint8Array {
  const cipher = createCipheriv('aes-128-ecb', key.macK, null).setAutoPadding(false);
  const once = new Uint8Array(32);
  once.set(key.macR, 0);
  once.set(cipher.update(iv), 16);
  return poly1305(sealed, once);
}
