import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign,
  verify,
} from 'node:crypto';
import { z } from 'zod';
import { canonicalJson } from './canonical-json.ts';
import { sha256 } from './chain.ts';

/**
 * A signed statement about a chain: "its entry number `seq` has this checksum". Whoever can write to the database can
 * compute a whole chain anew, but not sign its head. `cut`: everything up to and including `seq` was pruned.
 */
export const Checkpoint = z.strictObject({
  chainId: z.string(),
  kind: z.enum(['head', 'cut']),
  /** Its place among the checkpoints of its chain, from 1. */
  number: z.number(),
  seq: z.number(),
  checksum: z.string(),
  /** The hash of the checkpoint before it; null on the first. */
  previous: z.string().nullable(),
  at: z.string(),
  keyId: z.string(),
  /** Ed25519 over the canonical JSON of all the rest, with `type`; base64url. */
  signature: z.string(),
});
export type Checkpoint = z.infer<typeof Checkpoint>;

export const PublicKey = z.object({
  keyId: z.uuid(),
  algorithm: z.literal('Ed25519'),
  publicKey: z.string().describe('PEM, as `openssl pkey -pubin` reads it.'),
  createdAt: z.iso.datetime(),
  retiredAt: z.iso.datetime().nullable().describe('Since when it signs nothing any more.'),
});
export type PublicKey = z.infer<typeof PublicKey>;

export interface SigningKey {
  keyId: string;
  privateKey: KeyObject;
}

type Statement = Omit<Checkpoint, 'signature'>;

/** What is signed. The type keeps the signature from being taken for one of something else. */
const signedText = ({ chainId, kind, number, seq, checksum, previous, at, keyId }: Statement): string =>
  canonicalJson({
    type: 'muster-audit-checkpoint',
    v: 1,
    chainId,
    kind,
    number,
    seq,
    checksum,
    previous,
    at,
    keyId,
  });

export function signCheckpoint(statement: Omit<Statement, 'keyId'>, key: SigningKey): Checkpoint {
  const whole = { ...statement, keyId: key.keyId };
  const signature = sign(null, Buffer.from(signedText(whole)), key.privateKey).toString('base64url');
  return { ...whole, signature };
}

export function isSignedBy(checkpoint: Checkpoint, publicKey: KeyObject): boolean {
  return verify(
    null,
    Buffer.from(signedText(checkpoint)),
    publicKey,
    Buffer.from(checkpoint.signature, 'base64url'),
  );
}

/** What the checkpoint after it names it by. */
export const checkpointHash = (checkpoint: Checkpoint): string =>
  sha256(signedText(checkpoint) + checkpoint.signature);

export interface KeyPair {
  publicKey: string;
  privateKey: string;
}

export const newKeyPair = (): KeyPair =>
  generateKeyPairSync('ed25519', {
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });

/** The public key that belongs to a private one, both as PEM. */
export const publicKeyOf = (privateKey: string): string =>
  createPublicKey(createPrivateKey(privateKey)).export({ type: 'spki', format: 'pem' }).toString();

/** What people compare keys by. */
export const fingerprintOf = (publicKey: string): string =>
  sha256(createPublicKey(publicKey).export({ type: 'spki', format: 'der' }).toString('base64')).slice(0, 32);
