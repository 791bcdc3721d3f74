import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';

/** Ed25519 key pairs in PEM form. */
export interface KeyPair {
  publicKey: string;
  privateKey: string;
}

/** A private key that is ready to sign, and the id under which others find the public one. */
export interface SigningKey {
  keyId: string;
  privateKey: KeyObject;
}

export const newKeyPair = (): KeyPair =>
  generateKeyPairSync('ed25519', {
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });

/** The public key that belongs to a private one, both as PEM. */
export const publicKeyOf = (privateKey: string): string =>
  createPublicKey(createPrivateKey(privateKey)).export({ type: 'spki', format: 'pem' }).toString();
